"""Deletion in steps: each a transaction of its own that touches no more than it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.store.port import Delay, Wanted

from .reading import remembered
from .session import OTHER_PART, OTHER_SUB, PART, SUB, Fixtures, columns, page, scheduled

if TYPE_CHECKING:
    from .session import Session


async def steps(session: Session, part: int, sub: int | None, limit: int) -> list[int]:
    """What each step deleted, until nothing is left."""
    counts: list[int] = []
    while not counts or counts[-1]:
        counts.append(await session.lane.delete_remains(part, sub, limit))
        assert len(counts) < 100
    return counts


class Background(Fixtures):
    async def test_a_range_of_the_log_is_deleted(self, session: Session) -> None:
        await session.commit(messages=columns(*range(1, 8)))
        await session.commit(messages=columns(1, part=OTHER_PART))
        assert await session.lane.delete_messages(PART, 1, 4) == 3
        assert await session.lane.delete_messages(PART, 1, 4) == 0
        left = await session.lane.messages([Wanted(PART, 1, 100, 1_000), Wanted(OTHER_PART, 1, 100, 1_000)], [])
        assert [(m.part, m.seq) for m in left] == [(PART, 4), (PART, 5), (PART, 6), (PART, 7), (OTHER_PART, 1)]

    async def test_old_buckets_are_forgotten_in_steps(self, session: Session) -> None:
        old = [remembered(f"id-{number}", bucket=number % 2) for number in range(6)]
        kept = [remembered("kept", bucket=2), remembered("kept", bucket=0, part=OTHER_PART)]
        await session.commit(deduplicated=[*old, *kept])
        assert [await session.lane.delete_deduplicated(PART, 2, 4) for _ in range(3)] == [4, 2, 0]
        found = await session.lane.duplicates([(r.part, r.bucket, r.scope, r.id) for r in [*old, *kept]])
        assert sorted(found, key=repr) == sorted(kept, key=repr)

    async def test_the_remains_of_a_partition_go_in_steps(self, session: Session) -> None:
        for part in (PART, OTHER_PART):
            await session.commit(
                messages=columns(1, 2, 3, part=part),
                pages=[page(0, part=part), page(0, part=part, sub=OTHER_SUB)],
                deduplicated=[remembered("a", part=part), remembered("b", part=part)],
                scheduled=[scheduled(1, 100, part=part)],
                delays=[Delay(part, 1)],
            )
        await session.commit(removed_partitions=[PART], removed_cursors=[(PART, SUB)])
        counts = await steps(session, PART, None, 2)
        assert sum(counts) == 9
        assert max(counts) <= 2
        assert await session.lane.messages([Wanted(PART, 1, 100, 1_000)], []) == []
        assert await session.lane.pages((PART, SUB)) == await session.lane.pages((PART, OTHER_SUB)) == []
        assert await session.lane.due(PART, 1_000, 10) == []
        assert await session.lane.parts_due(1_000) == [OTHER_PART]
        assert sum(await steps(session, OTHER_PART, None, 100)) == 9

    async def test_the_remains_of_a_ledger_go_in_steps(self, session: Session) -> None:
        await session.commit(messages=columns(1), pages=[page(n) for n in range(5)] + [page(0, sub=OTHER_SUB)])
        assert await steps(session, PART, SUB, 3) == [3, 2, 0]
        assert len(await session.lane.pages((PART, OTHER_SUB))) == 1
        assert len(await session.lane.messages([], [(PART, 1)])) == 1
