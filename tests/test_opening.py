"""A database that cannot be opened: what is told, and that nothing is left behind."""

from __future__ import annotations

import pytest

import rowlock
from rowlock.errors import RowlockError


@pytest.mark.parametrize(
    "url",
    ["sqlite:////nowhere/rowlock.db", "postgresql://x@/x?host=/nowhere", "mysql://x@localhost/x?unix_socket=/nowhere"],
)
async def test_a_broker_that_could_not_be_opened_can_be_closed(url: str) -> None:
    broker = rowlock.open(url)
    with pytest.raises(RowlockError):
        await broker.open()
    await broker.close()
