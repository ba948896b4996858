"""Reads without a lock: messages within bounds, what is due, where ledgers stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.store.port import Deduplicated, Delay, Position, Progress, Scope, Wanted

from .session import OTHER_PART, OTHER_SUB, PART, SUB, Fixtures, columns, message_id, page, partition, scheduled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .session import Session

CURSOR = (PART, SUB)
PLENTY = 1_000_000


def remembered(name: str, bucket: int = 1, scope: str = "", part: int = PART, seq: int = 1) -> Deduplicated:
    return Deduplicated(part, bucket, scope, name, message_id(seq), seq, 1_000)


class Reading(Fixtures):
    async def seqs(self, session: Session, ranges: Sequence[Wanted]) -> list[tuple[int, int]]:
        return [(m.part, m.seq) for m in await session.lane.messages(ranges, [])]

    async def test_a_range_is_read_in_order_without_its_end(self, session: Session) -> None:
        await session.commit(messages=columns(3, 1, 2, 4, 5))
        assert await self.seqs(session, [Wanted(PART, 2, 5, PLENTY)]) == [(PART, 2), (PART, 3), (PART, 4)]

    @pytest.mark.parametrize(("bound", "count"), [(0, 1), (9, 1), (10, 1), (19, 1), (20, 2), (29, 2), (1_000, 4)])
    async def test_a_range_stays_within_its_bytes_but_has_one(self, session: Session, bound: int, count: int) -> None:
        await session.commit(messages=columns(1, 2, 3, 4))
        assert await self.seqs(session, [Wanted(PART, 1, 10, bound)]) == [(PART, seq) for seq in range(1, count + 1)]

    async def test_a_large_message_ends_a_range_although_a_small_one_follows(self, session: Session) -> None:
        await session.commit(messages=columns(1, 2, 3, sizes=[10, 1_000, 10]))
        assert await self.seqs(session, [Wanted(PART, 1, 4, 500)]) == [(PART, 1)]

    async def test_every_range_has_a_bound_of_its_own(self, session: Session) -> None:
        await session.commit(messages=columns(1, 2, 3))
        await session.commit(messages=columns(1, 2, 3, part=OTHER_PART))
        ranges = [Wanted(PART, 1, 4, 20), Wanted(OTHER_PART, 2, 4, 10), Wanted(99, 1, 4, 10)]
        assert sorted(await self.seqs(session, ranges)) == [(PART, 1), (PART, 2), (OTHER_PART, 2)]

    async def test_ranges_and_single_messages_in_one_call(self, session: Session) -> None:
        await session.commit(messages=columns(*range(1, 10)))
        found = await session.lane.messages([Wanted(PART, 1, 3, PLENTY)], [(PART, 7), (PART, 5), (PART, 77), (99, 5)])
        assert sorted(m.seq for m in found) == [1, 2, 5, 7]
        assert await session.lane.messages([], []) == []

    async def test_messages_are_read_inside_a_transaction_too(self, session: Session) -> None:
        await session.commit(messages=columns(1))
        view = await session.lane.lock(Scope(parts=[PART]))
        assert len(await session.lane.messages([Wanted(PART, 1, 2, PLENTY)], [])) == 1
        await session.finish(view, messages=columns(2))

    async def test_first_live_passes_what_expired(self, session: Session) -> None:
        await session.commit(messages=columns(2, 3, 4, 5, 6, expires_at=[50, 100, 101, None, 100]))
        live = session.lane.first_live
        assert await live(PART, 1, 10, 100) == (4, True)
        assert await live(PART, 1, 10, 101) == (5, True)
        assert await live(PART, 1, 2, 100) == (4, False)
        assert await live(PART, 6, 10, 100) == (7, False)
        assert await live(PART, 7, 10, 100) == (7, False)
        assert await live(OTHER_PART, 1, 10, 100) == (1, False)

    async def test_duplicates_are_found_by_the_whole_key(self, session: Session) -> None:
        there = [
            remembered("a"),
            remembered("a", bucket=2, seq=2),
            remembered("a", scope="group", seq=0),
            remembered("a", part=OTHER_PART),
            remembered("Ünïcode \U0001f6a3 '\"", seq=3),
        ]
        await session.commit(deduplicated=there)
        keys = [(row.part, row.bucket, row.scope, row.id) for row in there]
        missing = [
            (PART, 1, "", "A"),
            (PART, 3, "", "a"),
            (PART, 1, "Group", "a"),
            (PART, 1, "", "a "),
            (99, 1, "", "a"),
        ]
        found = await session.lane.duplicates([*keys, *missing])
        assert sorted(found, key=repr) == sorted(there, key=repr)
        assert await session.lane.duplicates(missing) == []
        assert await session.lane.duplicates([]) == []

    async def test_what_is_due_comes_earliest_first(self, session: Session) -> None:
        late = scheduled(1, due=300, key="k", attributes=b"\x80", expires_at=900)
        await session.commit(scheduled=[late, scheduled(2, due=100), scheduled(3, due=200)])
        due = [row.due for row in await session.lane.due(PART, 250, 10)]
        assert due == [100, 200]
        assert [row.due for row in await session.lane.due(PART, 300, 1)] == [100]
        assert (await session.lane.due(PART, 300, 10))[-1] == late
        assert await session.lane.due(OTHER_PART, 300, 10) == []

    async def test_delays_are_counted_and_know_the_next_due_time(self, session: Session) -> None:
        await session.commit(
            scheduled=[scheduled(1, 300), scheduled(2, 100), scheduled(3, 200, part=OTHER_PART)],
            delays=[Delay(PART, 2), Delay(OTHER_PART, 1)],
        )
        assert await self.waiting(session) == [(PART, 2, 100), (OTHER_PART, 1, 200)]
        assert sorted(await session.lane.parts_due(199)) == [PART]
        assert sorted(await session.lane.parts_due(200)) == [PART, OTHER_PART]
        await session.commit(unscheduled=[(PART, 100, message_id(2))], delays=[Delay(PART, -1)], messages=columns(1))
        assert await self.waiting(session) == [(PART, 1, 300), (OTHER_PART, 1, 200)]
        await session.commit(unscheduled=[(PART, 300, message_id(1))], delays=[Delay(PART, -1)])
        assert await self.waiting(session) == [(PART, 0, None), (OTHER_PART, 1, 200)]
        assert await session.lane.parts_due(10_000) == [OTHER_PART]

    async def waiting(self, session: Session) -> list[tuple[int, int, int | None]]:
        rows = await session.lane.partition_rows([PART, OTHER_PART])
        return sorted((row.part, row.waiting, row.next_due) for row in rows)

    async def test_positions_in_one_statement(self, session: Session) -> None:
        cursors = [(PART, OTHER_SUB, 4), (99, SUB, 1)]
        await session.commit(
            partitions=[partition(PART, 3, first=2)],
            cursors=cursors,
            messages=columns(1, 2, 3),
            pages=[page(0, frontier=2), page(1, stamp=77, frontier=3, outstanding=1)],
            scheduled=[scheduled(1, 300)],
            delays=[Delay(PART, 1)],
        )
        wanted = [CURSOR, (PART, OTHER_SUB), (PART, 98), (99, SUB)]
        found = {(p.part, p.sub): p for p in await session.lane.positions(wanted)}
        assert set(found) == {CURSOR, (PART, OTHER_SUB)}
        assert found[CURSOR] == Position(PART, SUB, 1, first=2, last=3, waiting=1, stamp=77, frontier=3, outstanding=1)
        empty = found[PART, OTHER_SUB]
        assert (empty.version, empty.last, empty.stamp, empty.outstanding) == (4, 3, 0, 0)

    async def test_all_cursors_in_pages(self, session: Session) -> None:
        await session.commit(cursors=[(OTHER_PART, 3, 1), (PART, OTHER_SUB, 1), (OTHER_PART, 1, 1)])
        everything = [CURSOR, (PART, OTHER_SUB), (OTHER_PART, 1), (OTHER_PART, 3)]
        assert await session.lane.all_cursors((0, 0), 10) == everything
        assert await session.lane.all_cursors((0, 0), 2) == everything[:2]
        assert await session.lane.all_cursors((PART, OTHER_SUB), 2) == everything[2:]
        assert await session.lane.all_cursors((OTHER_PART, 3), 2) == []

    async def test_partition_rows_leave_out_what_is_missing(self, session: Session) -> None:
        await session.commit(messages=columns(4, published_at=[40]))
        rows = await session.lane.partition_rows([99, PART])
        assert [(row.part, row.last, row.last_at) for row in rows] == [(PART, 4, 40)]

    async def test_a_ledgers_pages_come_with_data(self, session: Session) -> None:
        writes = [page(0), page(1)]
        await session.commit(pages=[*writes, page(0, sub=OTHER_SUB)])
        found = sorted(await session.lane.pages(CURSOR), key=lambda row: row.page)
        assert found == [write.row for write in writes]
        assert await session.lane.pages((99, SUB)) == []

    async def test_a_sequence_by_time(self, session: Session) -> None:
        times = [10, 20, 20, 20, 30, 30, 50]
        await session.commit(messages=columns(*range(101, 108), published_at=times))
        found = [await session.lane.sequence_at(PART, time) for time in (0, 10, 11, 20, 21, 30, 49, 50, 51)]
        assert found == [101, 101, 102, 102, 105, 105, 107, 107, 108]
        assert await session.lane.sequence_at(OTHER_PART, 10) == 1

    async def test_progress_is_summed_over_partitions(self, session: Session) -> None:
        assert await session.lane.progress(5) == 0
        await session.commit(progress=[Progress(5, PART, 3), Progress(6, PART, 100)])
        await session.commit(progress=[Progress(5, PART, 4), Progress(5, OTHER_PART, 10)])
        assert await session.lane.progress(5) == 17
