"""Writes a transaction's changes, in an open transaction, statement by statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowlock.store.faults import Contended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.store.port import Changes, MessageColumns, PageDrop, PageWrite, Turn
    from rowlock.store.sqlite.connection import Connection


class Writing:
    """The writes of one lane. Whatever raises leaves the transaction to be rolled back by the caller."""

    def __init__(self, connection: Connection, sql: dict[str, str]) -> None:
        self._connection = connection
        self._sql = sql

    def changes(self, changes: Changes) -> None:
        self.turn(changes.turn, changes.decided_at)
        self._pages(changes.dropped_pages, changes.pages)
        self._many("insert_message", _rows(changes.messages))
        self._many("insert_duplicate", [(d.part, d.bucket, d.scope, d.id, d.message, d.seq, d.at)
                                        for d in changes.deduplicated])  # fmt: skip
        self._schedule(changes)
        self._many("count_progress", [(p.move, p.part, p.moved) for p in changes.progress])
        self._lock_rows(changes)

    def turn(self, turn: Turn, at: int) -> None:
        """Take the turn, or raise `Contended` where it was lost."""
        if turn.previous_writer == turn.writer:
            taken = self._run("next_turn", turn.stamp, at, turn.writer, turn.previous)
        else:
            ended = turn.previous_writer is None or self._run("end_writer", turn.previous_writer, turn.previous)
            taken = ended and self._run("first_turn", turn.writer, turn.stamp, at)
        if not taken:
            raise Contended(f"writer {turn.writer} lost its turn")

    def prevent(self, turn: Turn, at: int) -> None:
        """Take away what the turn has to find, so that it can never be taken."""
        if turn.previous_writer is None:
            self._run("first_turn", turn.writer, 0, at)
        else:
            self._run("end_writer", turn.previous_writer, turn.previous)

    def _pages(self, drops: list[PageDrop], writes: list[PageWrite]) -> None:
        dropped = [(d.part, d.sub, d.page, d.era, d.was) for d in drops]
        replaced = [
            (r.stamp, r.frontier, r.outstanding, r.at, r.data, r.part, r.sub, r.page, r.era, write.was)
            for write in writes
            if write.was
            for r in (write.row,)
        ]
        inserted = [
            (r.part, r.sub, r.page, r.era, r.stamp, r.frontier, r.outstanding, r.at, r.data)
            for r in (write.row for write in writes if not write.was)
        ]
        self._exactly("drop_page", dropped)
        self._exactly("replace_page", replaced)
        self._exactly("insert_page", inserted)

    def _schedule(self, changes: Changes) -> None:
        self._many("delete_scheduled", changes.unscheduled)
        self._many("insert_scheduled", [
            (s.part, s.due, s.id, s.accepted_at, s.expires_at, s.key, s.attributes, s.size, s.body)
            for s in changes.scheduled
        ])  # fmt: skip
        delays = [{"part": delay.part, "change": delay.change} for delay in changes.delays]
        self._many("count_delayed", delays)
        self._many("forget_no_delay", delays)

    def _lock_rows(self, changes: Changes) -> None:
        self._many("put_partition", [(p.part, p.version, p.first, p.swept) for p in changes.partitions])
        self._many("put_cursor", changes.cursors)
        self._many("remove_partition", [(part,) for part in changes.removed_partitions])
        self._many("remove_cursor", changes.removed_cursors)

    def _run(self, name: str, *parameters: int | None) -> int:
        return self._connection.run(self._sql[name], parameters)

    def _many(self, name: str, rows: list[Any]) -> int:
        return self._connection.many(self._sql[name], rows) if rows else 0

    def _exactly(self, name: str, rows: list[Any]) -> None:
        changed = self._many(name, rows)
        if changed != len(rows):
            raise Contended(f"{name}: {len(rows) - changed} of {len(rows)} pages had changed")


def _rows(columns: MessageColumns) -> list[tuple[Any, ...]]:
    return list(_zip(columns)) if columns.parts else []


def _zip(c: MessageColumns) -> Iterator[tuple[Any, ...]]:
    nothing = [None] * len(c.parts)
    return zip(
        c.parts, c.seqs, c.ids, c.accepted_at, c.published_at, c.expires_at or nothing, c.due_at or nothing,
        c.keys or nothing, c.attributes or nothing, c.origins or nothing, c.sizes, c.bodies, strict=True,
    )  # fmt: skip
