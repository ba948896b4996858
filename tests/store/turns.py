"""A writer's chain of turns, and finding out what became of a transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock.store.faults import Contended
from rowlock.store.port import Scope, Turn

from .session import HOUR, PART, SUB, Fixtures, Session, columns, numbers, page

if TYPE_CHECKING:
    from .session import OpenSession


def first(session: Session) -> Turn:
    return Turn(next(numbers), next(numbers), None, None)


def following(session: Session) -> Turn:
    return session.turn()


def rolled(session: Session) -> Turn:
    assert session.last is not None
    return Turn(next(numbers), next(numbers), session.last.writer, session.last.stamp)


KINDS = pytest.mark.parametrize("kind", [first, following, rolled])


class Turns(Fixtures):
    @KINDS
    async def test_a_committed_turn_is_found(self, session: Session, open_session: OpenSession, kind: object) -> None:
        turn = kind(session)  # type: ignore[operator]
        await session.commit(turn=turn, messages=columns(1))
        other = await open_session()
        assert await other.lane.fence(turn)
        assert await other.lane.fence(turn)
        await session.commit(messages=columns(2))

    @KINDS
    async def test_a_fenced_turn_is_never_taken(
        self, session: Session, open_session: OpenSession, kind: object
    ) -> None:
        turn = kind(session)  # type: ignore[operator]
        other = await open_session()
        assert not await other.lane.fence(turn)
        assert not await other.lane.fence(turn)
        with pytest.raises(Contended):
            await session.commit(turn=turn, messages=columns(1), pages=[page(0)])
        assert await other.lane.messages([], [(PART, 1)]) == []
        assert await other.lane.pages((PART, SUB)) == []
        assert not await other.lane.fence(turn)

    @KINDS
    async def test_after_a_fence_a_new_chain_begins(self, session: Session, kind: object) -> None:
        assert not await session.lane.fence(kind(session))  # type: ignore[operator]
        await session.commit(turn=first(session), messages=columns(1))
        await session.commit(messages=columns(2))

    async def test_a_chain_goes_on_after_a_fence_that_found_its_turn(self, session: Session) -> None:
        assert session.last is not None
        assert await session.lane.fence(session.last)
        await session.commit(messages=columns(1))

    async def test_a_turn_is_over_when_the_next_is_taken(self, session: Session) -> None:
        old = session.last
        assert old is not None
        await session.commit(turn=rolled(session))
        assert not await session.lane.fence(old)

    async def test_turns_that_were_lost(self, session: Session) -> None:
        last = session.last
        assert last is not None
        for lost in (
            Turn(last.writer, next(numbers), None, None),
            Turn(last.writer, next(numbers), last.writer, last.stamp + 1_000_000),
            Turn(next(numbers), next(numbers), last.writer, last.stamp + 1_000_000),
            Turn(next(numbers), next(numbers), next(numbers), last.stamp),
        ):
            with pytest.raises(Contended):
                await session.commit(turn=lost, messages=columns(1))
        session.last = last
        assert await session.lane.messages([], [(PART, 1)]) == []
        await session.commit(messages=columns(1))

    async def test_a_fence_beside_an_open_transaction_says_what_comes_true(
        self, session: Session, open_session: OpenSession
    ) -> None:
        other = await open_session()
        turn = session.turn()
        view = await session.lane.lock(Scope(parts=[PART]))
        fencing = asyncio.create_task(other.lane.fence(turn))
        await asyncio.wait([fencing], timeout=0.05)
        try:
            await session.finish(view, turn=turn, messages=columns(1))
            written = True
        except Contended:
            written = False
        assert await fencing == written
        assert bool(await other.lane.messages([], [(PART, 1)])) == written

    async def test_old_writers_are_forgotten(self, session: Session, open_session: OpenSession) -> None:
        clock = await session.lane.clock()
        await session.lane.delete_writers(clock - HOUR)
        await session.commit(messages=columns(1))
        await session.lane.delete_writers(clock + HOUR)
        with pytest.raises(Contended):
            await session.commit(messages=columns(2))
