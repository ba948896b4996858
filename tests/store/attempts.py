"""Compare and write in one round trip, where a store has it: each single way of disagreeing writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock import limits
from rowlock.store.faults import Contended, Misuse
from rowlock.store.port import Changes, Durability, Scope

from .reading import remembered
from .session import HOUR, OTHER_PART, PART, SUB, Fixtures, Session, columns, page

if TYPE_CHECKING:
    from rowlock.store.port import Attempt, Store

    from .session import OpenSession

CURSOR = (PART, SUB)
STAMP = 55
AGREEING: dict[str, Any] = {
    "expected_parts": [(PART, 1, 1), (OTHER_PART, 1, None)],
    "expected_cursors": [(*CURSOR, 1, STAMP)],
    "unseen": [(PART, 1, "", "fresh")],
    "deduplicated": [remembered("new")],
    "pages": [page(0, was=STAMP)],
    "messages": columns(2),
}


class Attempts(Fixtures):
    @pytest.fixture
    async def ready(self, session: Session) -> Session:
        """One message, one page, one remembered id; everything in AGREEING agrees with it."""
        if not session.lane.compares:
            pytest.skip("this store does not compare and write")
        await session.commit(
            messages=columns(1), pages=[page(0, stamp=STAMP)], deduplicated=[remembered("old")]
        )  # fmt: skip
        return session

    async def attempt(self, session: Session, shift: int = 0, **changes: Any) -> Attempt:
        decided_at = await session.lane.clock() + shift
        return await session.lane.attempt(session.changes(decided_at, **AGREEING | changes))

    async def nothing_was_written(self, session: Session, other: Session) -> bool:
        """And no lock is left behind."""
        view = await other.look(Scope(parts=[PART, OTHER_PART], cursors=[CURSOR]))
        head = view.cursors[CURSOR].head
        seen = await other.lane.duplicates([(PART, 1, "", "new")])
        return view.partitions[PART].last == 1 and head is not None and head.stamp == STAMP and not seen

    async def test_a_store_that_does_not_compare_says_so(self, session: Session) -> None:
        if session.lane.compares:
            pytest.skip("this store compares and writes")
        with pytest.raises(Misuse):
            await session.lane.attempt(Changes(session.turn(), 0))

    async def test_when_all_agrees_it_is_written(self, ready: Session, open_session: OpenSession) -> None:
        turn = ready.turn()
        before = await ready.lane.clock()
        attempt = await self.attempt(ready, turn=turn)
        assert attempt.agreed
        assert attempt.clock >= before
        other = await open_session()
        assert await other.lane.fence(turn)
        assert not await self.nothing_was_written(ready, other)
        assert len(await other.lane.messages([], [(PART, 2)])) == 1
        assert len(await other.lane.duplicates([(PART, 1, "", "new")])) == 1

    @pytest.mark.parametrize(
        "wrong",
        [
            {"expected_parts": [(PART, 2, 1)]},
            {"expected_parts": [(PART, 1, 0)]},
            {"expected_parts": [(PART, 1, 2)]},
            {"expected_parts": [(PART, 1, 1), (OTHER_PART, 2, None)]},
            {"expected_parts": [(PART, 1, 1), (99, 1, None)]},
            {"expected_cursors": [(*CURSOR, 2, STAMP)]},
            {"expected_cursors": [(*CURSOR, 1, STAMP + 1)]},
            {"expected_cursors": [(*CURSOR, 1, 0)], "pages": []},
            {"expected_cursors": [(*CURSOR, 1, STAMP), (99, SUB, 1, STAMP)]},
            {"unseen": [(PART, 1, "", "fresh"), (PART, 1, "", "old")]},
            {"deduplicated": [remembered("new"), remembered("old")]},
            {"shift": limits.CYCLE_CLOCK_MS + 5_000},
            {"shift": -limits.CYCLE_CLOCK_MS - 1},
        ],
        ids=[
            "version", "last is more", "last is less", "version of the second", "partition is gone",
            "version of the cursor", "head", "head where none was", "cursor is gone", "seen", "remembered",
            "decided in the future", "decided long ago",
        ],
    )  # fmt: skip
    async def test_one_disagreement_and_nothing_is_written(
        self, ready: Session, open_session: OpenSession, wrong: dict[str, Any]
    ) -> None:
        turn = ready.turn()
        attempt = await self.attempt(ready, turn=turn, **wrong)
        assert not attempt.agreed
        assert attempt.clock > 1_700_000_000_000
        other = await open_session()
        assert await self.nothing_was_written(ready, other)
        assert (await self.attempt(ready, turn=turn)).agreed

    async def test_the_clock_is_compared_as_shifted(self, ready: Session) -> None:
        before = await ready.lane.clock()
        ready.lane.clock_shift = HOUR
        assert not (await self.attempt(ready, shift=-HOUR)).agreed
        attempt = await self.attempt(ready)
        assert attempt.agreed
        assert attempt.clock >= before + HOUR

    async def test_a_ledger_without_pages_has_the_head_stamp_0(self, ready: Session) -> None:
        await ready.commit(cursors=[(OTHER_PART, SUB, 1)])
        expected = [(*CURSOR, 1, STAMP), (OTHER_PART, SUB, 1, 0)]
        assert (await self.attempt(ready, expected_cursors=expected)).agreed

    async def test_nothing_expected_and_nothing_written_takes_the_turn(self, ready: Session) -> None:
        turn = ready.turn()
        nothing: dict[str, Any] = {name: [] for name in AGREEING if name != "messages"} | {"messages": columns()}
        assert (await self.attempt(ready, turn=turn, **nothing)).agreed
        assert await ready.lane.fence(turn)

    @pytest.mark.parametrize("wrong", [{"pages": [page(0, was=4)]}, {"pages": [page(0)]}], ids=["replace", "insert"])
    async def test_a_page_that_is_not_as_named(
        self, ready: Session, open_session: OpenSession, wrong: dict[str, Any]
    ) -> None:
        with pytest.raises(Contended):
            await self.attempt(ready, **wrong)
        assert await self.nothing_was_written(ready, await open_session())
        assert (await self.attempt(ready)).agreed

    async def test_a_fenced_attempt_writes_nothing(self, ready: Session, open_session: OpenSession) -> None:
        other = await open_session()
        turn = ready.turn()
        assert not await other.lane.fence(turn)
        with pytest.raises(Contended):
            await self.attempt(ready, turn=turn)
        assert await self.nothing_was_written(ready, other)

    async def test_two_attempts_of_which_one_comes_first(self, ready: Session, store: Store) -> None:
        other = Session(await store.lane(0, Durability.LOCAL))
        assert (await self.attempt(other)).agreed
        assert not (await self.attempt(ready)).agreed
        await other.lane.close()
