"""Opening a database: schema, lanes, durability, hints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock.store.faults import NotReplicated, StoreFault
from rowlock.store.port import Durability, Scope

from .session import PART, Fixtures, Session, columns, partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.store.port import Store

    from .session import NewStore, OpenSession, Reopen


class Opening(Fixtures):
    async def test_a_new_database_has_one_lane(self, store: Store) -> None:
        assert store.lanes == 1

    async def test_lanes_are_added_and_never_taken_away(self, new_store: NewStore, reopen: Reopen) -> None:
        first = await reopen()
        await first.control.secret()
        more = new_store()
        await more.open(lanes=3)
        await more.close()
        fewer = new_store()
        await fewer.open(lanes=2)
        await fewer.close()
        assert more.lanes == fewer.lanes == (await reopen()).lanes == 3

    async def test_two_stores_may_open_a_new_database_at_once(self, reopen: Reopen) -> None:
        one, two = await asyncio.gather(reopen(), reopen())
        assert one.lanes == two.lanes == 1
        assert await one.control.secret() == await two.control.secret()

    async def test_a_lane_has_rows_of_its_own(self, new_store: NewStore) -> None:
        store = new_store()
        await store.open(lanes=2)
        lanes = [await store.lane(number, Durability.LOCAL) for number in (0, 1)]
        await Session(lanes[0]).commit(partitions=[partition(PART)], messages=columns(1))
        await Session(lanes[1]).commit(partitions=[partition(PART, version=7)], messages=columns(1, 2))
        rows = [(await lane.partition_rows([PART]))[0] for lane in lanes]
        for lane in lanes:
            await lane.close()
        await store.close()
        assert [(row.version, row.last) for row in rows] == [(1, 1), (7, 2)]

    async def test_a_lane_that_does_not_exist_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreFault):
            await store.lane(store.lanes, Durability.LOCAL)

    async def test_replicated_needs_a_standby(self, store: Store) -> None:
        with pytest.raises(NotReplicated):
            await store.lane(0, Durability.REPLICATED)

    async def test_relaxed_writes_are_seen_by_others(self, store: Store, open_session: OpenSession) -> None:
        relaxed = await store.lane(0, Durability.RELAXED)
        await Session(relaxed).commit(partitions=[partition(PART)])
        await relaxed.close()
        view = await (await open_session()).look(Scope(parts=[PART]))
        assert view.partitions[PART].version == 1

    async def test_a_hint_reaches_another_store(self, store: Store, reopen: Reopen) -> None:
        if not store.hints:
            pytest.skip("this store has no hints")
        heard: asyncio.Queue[Sequence[int] | None] = asyncio.Queue()
        listening = asyncio.create_task((await reopen()).listen(heard.put_nowait))
        try:
            assert await asyncio.wait_for(_hint_until_heard(store, heard), 10) == {PART}
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def test_a_hint_never_raises(self, reopen: Reopen) -> None:
        store = await reopen()
        await store.close()
        await store.hint([PART])


async def _hint_until_heard(store: Store, heard: asyncio.Queue[Sequence[int] | None]) -> set[int]:
    """The listener needs a moment to begin; None (anything may have changed) is what it says then."""
    while True:
        await store.hint([PART])
        try:
            parts = await asyncio.wait_for(heard.get(), 0.2)
        except TimeoutError:
            continue
        if parts is not None:
            return set(parts)
