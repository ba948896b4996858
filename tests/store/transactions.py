"""Lock, read, write: what a view shows, and that a write happens as a whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock import limits
from rowlock.store.faults import Contended, Rejected
from rowlock.store.port import Delay, Durability, PageDrop, Scope, Wanted

from .session import HOUR, OTHER_PART, OTHER_SUB, PART, SUB, Fixtures, columns, message_id, page, partition, scheduled

if TYPE_CHECKING:
    from rowlock.store.faults import StoreFault
    from rowlock.store.port import MessageColumns, PageRow

    from .session import Reopen, Session

CURSOR = (PART, SUB)
OTHER_CURSOR = (PART, OTHER_SUB)


class Transactions(Fixtures):
    # What is locked and seen

    async def test_a_missing_lock_row_is_not_in_the_view(self, session: Session) -> None:
        view = await session.look(Scope(parts=[PART, 99], cursors=[CURSOR, (99, SUB), (PART, 99)]))
        assert set(view.partitions) == {PART}
        assert set(view.cursors) == {CURSOR}
        assert set(view.pages) <= {CURSOR}

    async def test_an_empty_scope_still_tells_the_time(self, session: Session) -> None:
        view = await session.look(Scope())
        assert (view.partitions, view.cursors, view.pages) == ({}, {}, {})
        assert view.clock > 1_700_000_000_000

    async def test_the_clock_moves_with_its_shift(self, session: Session) -> None:
        before = await session.lane.clock()
        session.lane.clock_shift = HOUR
        assert before + HOUR <= await session.lane.clock() < before + HOUR + 60_000
        assert before + HOUR <= (await session.look(Scope())).clock < before + HOUR + 60_000

    async def test_a_partition_that_never_had_a_message(self, session: Session) -> None:
        view = await session.look(Scope(parts=[PART]))
        assert view.partitions == {PART: partition(PART)}

    async def test_a_partition_knows_its_last_message_and_what_is_scheduled(self, session: Session) -> None:
        await session.commit(
            messages=columns(1, 2, published_at=[100, 200]),
            scheduled=[scheduled(1, due=900), scheduled(2, due=500)],
            delays=[Delay(PART, 2)],
        )
        row = (await session.look(Scope(parts=[OTHER_PART, PART]))).partitions[PART]
        assert (row.last, row.last_at, row.waiting, row.next_due) == (2, 200, 2, 500)

    async def test_the_newest_page_is_the_head(self, session: Session) -> None:
        newest = page(2, frontier=300, outstanding=7, at=5)
        await session.commit(pages=[page(0), newest, page(1)])
        head = (await session.look(Scope(cursors=[CURSOR]))).cursors[CURSOR].head
        assert head is not None
        assert head.data is None
        newest.row.data = None
        assert head == newest.row

    async def test_a_cursor_without_pages_has_no_head(self, session: Session) -> None:
        view = await session.look(Scope(cursors=[CURSOR]))
        assert view.cursors[CURSOR].head is None
        assert view.pages == {CURSOR: []}

    async def test_pages_of_a_ledger_that_is_not_known(self, session: Session) -> None:
        writes = [page(0, data=b""), page(1, data=b"\x00\xff" * 1_000), page(2)]
        await session.commit(pages=writes)
        view = await session.look(Scope(cursors=[CURSOR]))
        assert by_page(view.pages[CURSOR]) == [write.row for write in writes]

    async def test_what_is_known_of_one_ledger_says_nothing_of_another(self, session: Session) -> None:
        """A cycle writes the pages of several ledgers under one stamp."""
        await session.commit(
            cursors=[(*OTHER_CURSOR, 1)],
            pages=[page(0, stamp=7), page(1, stamp=8), page(0, stamp=7, sub=OTHER_SUB, data=b"other")],
        )
        known = {CURSOR: (6, frozenset({6, 7})), OTHER_CURSOR: (4, frozenset({4}))}
        pages = (await session.look(Scope(cursors=[CURSOR, OTHER_CURSOR], known=known))).pages
        assert [row.data is None for row in by_page(pages[CURSOR])] == [True, False]
        assert [row.data for row in pages[OTHER_CURSOR]] == [b"other"]

    async def test_pages_of_a_known_ledger_are_not_read(self, session: Session) -> None:
        await session.commit(pages=[page(0, stamp=5), page(1, stamp=6)])
        view = await session.look(Scope(cursors=[CURSOR], known={CURSOR: (6, frozenset({5, 6}))}))
        assert CURSOR not in view.pages
        assert view.cursors[CURSOR].head is not None

    async def test_of_a_changed_ledger_only_unknown_pages_come_with_data(self, session: Session) -> None:
        await session.commit(pages=[page(0, stamp=5), page(1, stamp=6), page(2, stamp=7)])
        view = await session.look(Scope(cursors=[CURSOR], known={CURSOR: (4, frozenset({4, 5, 7}))}))
        seen = [(row.page, row.stamp, row.data is None) for row in by_page(view.pages[CURSOR])]
        assert seen == [(0, 5, True), (1, 6, False), (2, 7, True)]

    async def test_a_known_ledger_whose_pages_are_gone_is_viewed_as_empty(self, session: Session) -> None:
        view = await session.look(Scope(cursors=[CURSOR], known={CURSOR: (4, frozenset({4}))}))
        assert view.pages[CURSOR] == []

    async def test_ledgers_are_compared_each_with_its_own_known_stamps(self, session: Session) -> None:
        theirs = page(0, stamp=6, sub=OTHER_SUB)
        await session.commit(cursors=[(*OTHER_CURSOR, 1)], pages=[page(0, stamp=5), theirs])
        known = {CURSOR: (5, frozenset({5})), OTHER_CURSOR: (5, frozenset({5}))}
        view = await session.look(Scope(cursors=[CURSOR, OTHER_CURSOR], known=known))
        assert view.pages == {OTHER_CURSOR: [theirs.row]}

    async def test_whole_partitions_show_every_cursor(self, session: Session) -> None:
        others = [(OTHER_PART, SUB, 1), (PART, OTHER_SUB, 1)]
        await session.commit(cursors=others, pages=[page(0, sub=OTHER_SUB)])
        view = await session.look(Scope(parts=[PART], cursors=[CURSOR], whole=[PART]))
        assert set(view.cursors) == {CURSOR, OTHER_CURSOR}
        assert len(view.pages[OTHER_CURSOR]) == 1

    # What is written

    async def test_a_message_keeps_every_field(self, session: Session) -> None:
        given = columns(
            7,
            published_at=[2_000],
            expires_at=[3_000],
            due_at=[2_500],
            keys=["Kunde 7 'ü' \U0001f6a3 \"\\;--"],
            attributes=[b"\x81\x00"],
            origins=[b"\x90"],
            sizes=[42],
            bodies=[bytes(range(256))],
        )
        await session.commit(messages=given)
        (stored,) = await session.lane.messages([], [(PART, 7)])
        assert (stored.part, stored.seq, stored.id) == (PART, 7, message_id(7))
        assert (stored.accepted_at, stored.published_at, stored.expires_at, stored.due_at) == (
            1_000,
            2_000,
            3_000,
            2_500,
        )
        assert (stored.key, stored.attributes, stored.origin) == (given.keys[0], b"\x81\x00", b"\x90")
        assert (stored.size, stored.body) == (42, bytes(range(256)))

    async def test_empty_columns_mean_null_and_an_empty_text_does_not(self, session: Session) -> None:
        await session.commit(messages=columns(1))
        await session.commit(messages=columns(2, 3, keys=["", None], attributes=[None, b""], bodies=[b"", b"x"]))
        one, two, three = await session.lane.messages([Wanted(PART, 1, 4, 1_000)], [])
        assert [one.expires_at, one.due_at, one.key, one.attributes, one.origin] == [None] * 5
        assert (two.key, two.attributes, two.body) == ("", None, b"")
        assert (three.key, three.attributes) == (None, b"")

    async def test_a_message_of_the_largest_size(self, session: Session) -> None:
        body = bytes(range(256)) * (limits.MESSAGE_MAX_BYTES // 256)
        await session.commit(messages=columns(1, 2, bodies=[body, b"small"], sizes=[len(body), 5]))
        assert [m.body == body for m in await session.lane.messages([], [(PART, 1), (PART, 2)])] == [True, False]

    async def test_the_largest_numbers_fit(self, session: Session) -> None:
        largest = 2**63 - 1
        await session.commit(pages=[page(0, stamp=largest)], partitions=[partition(PART, first=largest - 1)])
        view = await session.look(Scope(parts=[PART], cursors=[CURSOR]))
        assert view.cursors[CURSOR].head.stamp == largest  # type: ignore[union-attr]
        assert view.partitions[PART].first == largest - 1

    async def test_pages_are_replaced_dropped_and_moved_to_another_era(self, session: Session) -> None:
        await session.commit(pages=[page(0, stamp=5), page(1, stamp=6), page(2, stamp=7)])
        moved, replaced = page(2, era=1), page(0, was=5)
        drops = [PageDrop(PART, SUB, 1, 0, 6), PageDrop(PART, SUB, 2, 0, 7)]
        await session.commit(pages=[replaced, moved], dropped_pages=drops)
        assert by_page(await session.lane.pages(CURSOR)) == [replaced.row, moved.row]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"pages": [page(0, was=4)]},
            {"pages": [page(0)]},
            {"pages": [page(3, was=5)]},
            {"pages": [page(1), page(0, was=4)]},
            {"dropped_pages": [PageDrop(PART, SUB, 0, 0, 4)]},
            {"dropped_pages": [PageDrop(PART, SUB, 0, 1, 5)]},
        ],
        ids=["replace", "insert", "replace missing", "one of two", "drop", "drop missing"],
    )
    async def test_a_page_that_is_not_as_named_undoes_everything(self, session: Session, wrong: dict[str, Any]) -> None:
        there = page(0, stamp=5)
        await session.commit(pages=[there])
        turn = session.turn()
        with pytest.raises(Contended):
            await session.commit(turn=turn, messages=columns(1), cursors=[(PART, OTHER_SUB, 1)], **wrong)
        assert await session.lane.messages([], [(PART, 1)]) == []
        assert await session.lane.pages(CURSOR) == [there.row]
        assert await session.lane.all_cursors((0, 0), 10) == [CURSOR]
        await session.commit(turn=turn, messages=columns(1))

    @pytest.mark.parametrize(
        ("culprit", "fault"),
        [(columns(2, 1), Contended), (columns(2, 3, keys=["good", "lone \ud800 surrogate"]), Rejected)],
        ids=["sequence used twice", "no text"],
    )
    async def test_data_that_the_database_refuses_undoes_everything(
        self, session: Session, culprit: MessageColumns, fault: type[StoreFault]
    ) -> None:
        await session.commit(messages=columns(1))
        turn = session.turn()
        with pytest.raises(fault):
            await session.commit(turn=turn, pages=[page(0)], messages=culprit)
        assert await session.lane.pages(CURSOR) == []
        await session.commit(turn=turn, messages=columns(2))
        assert (await session.lane.partition_rows([PART]))[0].last == 2

    async def test_lock_rows_are_replaced_and_removed(self, session: Session) -> None:
        await session.commit(partitions=[partition(PART, 2, 5, 3)], cursors=[(*CURSOR, 2), (OTHER_PART, SUB, 1)])
        view = await session.look(Scope(parts=[PART], cursors=[CURSOR]))
        assert view.partitions[PART] == partition(PART, 2, 5, 3)
        assert view.cursors[CURSOR].version == 2
        await session.commit(removed_partitions=[PART], removed_cursors=[CURSOR])
        view = await session.look(Scope(parts=[PART, OTHER_PART], cursors=[CURSOR, (OTHER_PART, SUB)]))
        assert (set(view.partitions), set(view.cursors)) == ({OTHER_PART}, {(OTHER_PART, SUB)})

    async def test_rollback_changes_nothing_and_may_be_said_twice(self, session: Session) -> None:
        await session.lane.rollback()
        view = await session.lane.lock(Scope(parts=[PART]))
        await session.lane.rollback()
        await session.lane.rollback()
        assert (await session.look(Scope(parts=[PART]))).partitions == view.partitions
        await session.commit(messages=columns(1))

    async def test_what_is_committed_is_there_for_another_store(self, session: Session, reopen: Reopen) -> None:
        await session.commit(messages=columns(1))
        lane = await (await reopen()).lane(0, Durability.LOCAL)
        assert len(await lane.messages([], [(PART, 1)])) == 1
        await lane.close()


def by_page(rows: list[PageRow]) -> list[PageRow]:
    return sorted(rows, key=lambda row: (row.page, row.era))
