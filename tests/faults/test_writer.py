"""A broker's chain of turns ends without its doing: it begins another one, and its callers notice nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import rowlock
from rowlock.errors import OutcomeUnknown
from rowlock.store.faults import Lost

from .load import log_of

if TYPE_CHECKING:
    from rowlock.store.port import Changes

DAY_MS = 24 * 3600 * 1000


async def test_a_broker_that_was_idle_for_days_goes_on(store_url: str) -> None:
    """The background of another has forgotten its writer meanwhile."""
    async with rowlock.open(store_url, owner="tester") as broker:
        await broker.create_queue("q")
        await broker.publish("q", b"before")
        async with broker._engine.lanes.use(0) as lane:
            await lane.delete_writers(await lane.clock() + DAY_MS)
        await asyncio.wait_for(broker.publish("q", b"after"), 10)
        (one, two) = await broker.claim("q", 10)
        assert [one.body, two.body] == [b"before", b"after"]


@pytest.mark.parametrize("committed", [True, False])
async def test_a_broker_goes_on_after_an_outcome_that_stayed_unknown(store_url: str, committed: bool) -> None:
    """The database cannot be reached while patience lasts; whether the change was made, the next one goes through."""
    async with rowlock.open(store_url, owner="tester", patience=0.5) as broker:
        await broker.create_queue("q")
        await broker.publish("q", b"before")
        (cycle,) = broker._engine.cycles.values()
        lane, connect = cycle._lane, cycle._connect
        assert lane is not None

        async def lost(changes: Changes) -> None:
            if committed:
                await type(lane).write(lane, changes)
            raise Lost("lost at COMMIT", committing=True)

        async def refused() -> None:
            raise Lost("refused")

        cycle._contended = 1  # decide under lock
        lane.write = lost  # type: ignore[method-assign]
        cycle._connect = refused  # type: ignore[assignment]
        with pytest.raises(OutcomeUnknown, match="may have been stored"):
            await broker.publish("q", b"perhaps")
        cycle._connect = connect
        await asyncio.wait_for(broker.publish("q", b"after"), 10)
        perhaps = [b"perhaps"] if committed else []
        assert [message.body for message in await log_of(broker, "q")] == [b"before", *perhaps, b"after"]
