"""What the tests of the suite share: fixtures that open stores, and a session that keeps a writer's chain of turns."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from rowlock.store.port import (
    Changes,
    Durability,
    MessageColumns,
    PageRow,
    PageWrite,
    PartitionRow,
    Scheduled,
    Scope,
    Turn,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rowlock.store.port import Lane, Store, View

    NewStore = Callable[[], Store]
    Reopen = Callable[[], Awaitable[Store]]
    OpenSession = Callable[[], Awaitable["Session"]]

PART, OTHER_PART = 11, 12
SUB, OTHER_SUB = 21, 22
HOUR = 3_600_000
PATIENCE_SECONDS = 20

numbers = count(1_000)
"""Stamps and writers: any number that was not used before."""


class Session:
    """A lane, and the chain of turns of the one writer that uses it."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.last: Turn | None = None

    def turn(self) -> Turn:
        """The next turn; asking for it does not take it."""
        if self.last is None:
            return Turn(next(numbers), next(numbers), None, None)
        return Turn(self.last.writer, next(numbers), self.last.writer, self.last.stamp)

    def changes(self, clock: int, **changes: Any) -> Changes:
        return Changes(turn=changes.pop("turn", None) or self.turn(), decided_at=clock, **changes)

    async def finish(self, view: View, **changes: Any) -> None:
        """Write in the transaction that `lane.lock` began."""
        written = self.changes(view.clock, **changes)
        await self.lane.write(written)
        self.last = written.turn

    async def commit(self, scope: Scope | None = None, **changes: Any) -> View:
        """A whole transaction; its view."""
        view = await self.lane.lock(scope or Scope())
        await self.finish(view, **changes)
        return view

    async def look(self, scope: Scope) -> View:
        view = await self.lane.lock(scope)
        await self.lane.rollback()
        return view


class Fixtures:
    """A store on a fresh database, and ways to more stores and sessions on it; all are closed at the end."""

    @pytest.fixture
    async def reopen(self, new_store: NewStore) -> AsyncIterator[Reopen]:
        stores: list[Store] = []

        async def opened() -> Store:
            stores.append(new_store())
            await stores[-1].open()
            return stores[-1]

        yield opened
        for store in stores:
            await store.close()

    @pytest.fixture
    async def store(self, reopen: Reopen) -> Store:
        return await reopen()

    @pytest.fixture
    async def open_session(self, store: Store) -> AsyncIterator[OpenSession]:
        sessions: list[Session] = []

        async def opened() -> Session:
            sessions.append(Session(await store.lane(0, Durability.LOCAL)))
            return sessions[-1]

        yield opened
        for session in sessions:
            await session.lane.close()

    @pytest.fixture
    async def session(self, open_session: OpenSession) -> Session:
        """A session in a lane with the lock rows of two partitions, and one cursor in the first."""
        session = await open_session()
        await session.commit(partitions=[partition(PART), partition(OTHER_PART)], cursors=[(PART, SUB, 1)])
        return session


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.005)


def partition(part: int, version: int = 1, first: int = 1, swept: int = 1) -> PartitionRow:
    return PartitionRow(part, version, first, swept)


def message_id(seq: int) -> bytes:
    return seq.to_bytes(16, "big")


def columns(*seqs: int, part: int = PART, at: int = 1_000, **given: Any) -> MessageColumns:
    """Messages of ten bytes; a column that is not given is NULL."""
    n = len(seqs)
    fields: dict[str, Any] = {"published_at": [at] * n, "sizes": [10] * n, "bodies": [b"0123456789"] * n}
    return MessageColumns(
        parts=[part] * n,
        seqs=list(seqs),
        ids=[message_id(seq) for seq in seqs],
        accepted_at=[at] * n,
        **(fields | given),
    )


def page(number: int, was: int = 0, stamp: int | None = None, **given: Any) -> PageWrite:
    """A page write with a stamp of its own."""
    fields: dict[str, Any] = {"part": PART, "sub": SUB, "era": 0, "frontier": 1, "outstanding": 0, "at": 1_000}
    fields |= {"data": b"\x00page\xff", "page": number, "stamp": stamp or next(numbers)}
    return PageWrite(PageRow(**(fields | given)), was)


def scheduled(seq: int, due: int, part: int = PART, **given: Any) -> Scheduled:
    fields: dict[str, Any] = {"expires_at": None, "key": None, "attributes": None, "size": 4, "body": b"late"}
    return Scheduled(part=part, due=due, id=message_id(seq), accepted_at=1_000, **(fields | given))
