"""Creating what exists, with the same settings, succeeds; with others it is refused."""

from __future__ import annotations

import pytest

import rowlock
from rowlock.errors import AlreadyExists


async def test_a_dead_letter_queue_over_several_lanes(sqlite_url: str) -> None:
    """It was given a partition in every lane of its sources, which nobody asked for."""
    async with rowlock.open(sqlite_url, lanes=3) as broker:
        await broker.create_queue("dead")
        await broker.create_queue("jobs", partitions=3, max_receives=3, dead_letter="dead")
        await broker.create_queue("dead")
        assert (await broker.show_queue("dead")).settings["partitions"] == 3
        await broker.create_queue("dead", partitions=3)
        with pytest.raises(AlreadyExists, match="partitions is 1, not 2"):
            await broker.create_queue("dead", partitions=2)
