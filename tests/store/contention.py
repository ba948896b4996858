"""Two connections that want the same rows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowlock.store.faults import Contended
from rowlock.store.port import Durability, Scope

from .session import OTHER_PART, PART, PATIENCE_SECONDS, SUB, Fixtures, Session, columns, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.store.port import View

    from .session import OpenSession, Reopen

CURSOR = (PART, SUB)


async def locked(session: Session, scope: Scope) -> View:
    """The view, after as many tries as it takes."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await session.lane.lock(scope)
            except Contended:
                continue


async def appended(session: Session, scope: Scope) -> int:
    """Append the message that follows the last."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            view = await locked(session, scope)
            seq = view.partitions[PART].last + 1
            try:
                await session.finish(view, messages=columns(seq))
            except Contended:
                continue
            return seq


class Contention(Fixtures):
    async def test_who_waits_for_a_lock_sees_what_its_holder_wrote(self, session: Session, reopen: Reopen) -> None:
        other = Session(await (await reopen()).lane(0, Durability.LOCAL))
        scope = Scope(parts=[PART], cursors=[CURSOR])
        mine = await session.lane.lock(scope)
        waiting = asyncio.create_task(locked(other, scope))
        await asyncio.wait([waiting], timeout=0.05)
        assert not waiting.done()
        written = page(0)
        await session.finish(mine, messages=columns(1), pages=[written], cursors=[(*CURSOR, 2)])
        theirs = await waiting
        await other.finish(theirs, messages=columns(2))
        await other.lane.close()
        assert (theirs.partitions[PART].last, theirs.cursors[CURSOR].version) == (1, 2)
        assert theirs.pages[CURSOR] == [written.row]
        assert theirs.clock >= mine.clock

    async def test_a_closed_connection_holds_no_lock(self, session: Session, open_session: OpenSession) -> None:
        other = await open_session()
        await other.lane.lock(Scope(parts=[PART], cursors=[CURSOR]))
        await other.lane.close()
        await locked(session, Scope(parts=[PART], cursors=[CURSOR]))
        await session.lane.rollback()

    async def test_reads_do_not_wait_for_a_lock(self, session: Session, open_session: OpenSession) -> None:
        await session.commit(messages=columns(1), pages=[page(0)])
        other = await open_session()
        view = await session.lane.lock(Scope(parts=[PART], cursors=[CURSOR]))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert len(await other.lane.messages([], [(PART, 1)])) == 1
            assert len(await other.lane.positions([CURSOR])) == 1
            assert len(await other.lane.pages(CURSOR)) == 1
            assert (await other.lane.partition_rows([PART]))[0].last == 1
        await session.finish(view)

    async def test_scopes_in_any_order_never_deadlock(self, session: Session, open_session: OpenSession) -> None:
        """Named the other way round by each: what is locked first is not the caller's choice."""
        await session.commit(cursors=[(OTHER_PART, SUB, 1)])
        parts, cursors = [PART, OTHER_PART], [CURSOR, (OTHER_PART, SUB)]
        orders = [(parts, cursors), (parts[::-1], cursors[::-1])] * 2

        async def repeat(parts: Sequence[int], cursors: Sequence[tuple[int, int]]) -> None:
            mine = await open_session()
            for _ in range(10):
                view = await mine.lane.lock(Scope(parts=parts, cursors=cursors))
                await asyncio.sleep(0)
                await mine.finish(view)

        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*(repeat(*order) for order in orders))

    async def test_sequences_stay_dense_with_many_writers(self, session: Session, open_session: OpenSession) -> None:
        async def repeat() -> list[int]:
            mine = await open_session()
            return [await appended(mine, Scope(parts=[PART])) for _ in range(10)]

        seqs = await asyncio.gather(*(repeat() for _ in range(4)))
        assert sorted(seq for each in seqs for seq in each) == list(range(1, 41))
