"""A transaction's changes as SQL statements, without I/O."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from rowlock.store.mariadb.literals import batches, encoded, in_steps, inserts, literal, row, wanted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowlock.store.mariadb.literals import Value
    from rowlock.store.port import Changes, Delay, MessageColumns, PageDrop, PageWrite, Turn

BULK_MESSAGES = 100
"""From so many messages on, binary values are worth a round trip of their own (docs/adr/notes-mariadb.txt)."""


class Writing:
    """The statements of one lane. None is larger than the server takes; a row that would be raises `Rejected`."""

    def __init__(self, sql: dict[str, str], limit_bytes: int) -> None:
        self._sql = sql
        self._limit_bytes = limit_bytes

    def changes(self, changes: Changes, *, messages: bool) -> Iterator[str]:
        """All statements but COMMIT, with the messages' or without."""
        yield from self.turn(changes.turn, changes.decided_at)
        if messages:
            yield from self._inserts("insert_messages", _message_rows(changes.messages))
        yield from self._pages(changes.dropped_pages, changes.pages)
        yield from self._inserts("insert_deduplicated", (
            row((d.part, d.bucket, d.scope, d.id, d.message, d.seq, d.at)) for d in changes.deduplicated
        ))  # fmt: skip
        yield from self._schedule(changes)
        yield from self._inserts("count_progress", (row((p.move, p.part, p.moved)) for p in changes.progress))
        yield from self._lock_rows(changes)

    def turn(self, turn: Turn, at: int) -> Iterator[str]:
        if turn.previous_writer is None:
            yield self._first_turn(turn.writer, turn.stamp, at)
        elif turn.previous_writer == turn.writer:
            previous = literal(turn.previous)
            yield self._sql["next_turn"] % {
                "writer": turn.writer, "stamp": turn.stamp, "previous": previous, "at": at,
            }  # fmt: skip
            yield self._fence(1)
        else:
            yield from self._end_writer(turn)
            yield self._fence(1)
            yield self._first_turn(turn.writer, turn.stamp, at)

    def prevent(self, turn: Turn, at: int) -> Iterator[str]:
        """Take away what the turn has to find, so that it can never be taken."""
        if turn.previous_writer is None:
            yield self._first_turn(turn.writer, 0, at)
        else:
            yield from self._end_writer(turn)

    def _first_turn(self, writer: int, stamp: int, at: int) -> str:
        return self._sql["first_turn"] % {"writer": writer, "stamp": stamp, "at": at}

    def _end_writer(self, turn: Turn) -> Iterator[str]:
        yield self._sql["end_writer"] % {"writer": literal(turn.previous_writer), "stamp": literal(turn.previous)}

    def _pages(self, drops: Sequence[PageDrop], writes: Sequence[PageWrite]) -> Iterator[str]:
        removed = [(d.part, d.sub, d.page, d.era, d.was) for d in drops]
        removed += [(w.row.part, w.row.sub, w.row.page, w.row.era, w.was) for w in writes if w.was]
        for some in in_steps(removed):
            yield self._sql["remove_pages"] % {"keys": wanted(some)}
            yield self._fence(len(some))
        yield from self._inserts("insert_pages", (
            row((r.part, r.sub, r.page, r.era, r.stamp, r.frontier, r.outstanding, r.at, r.data))
            for r in (write.row for write in writes)
        ))  # fmt: skip

    def _schedule(self, changes: Changes) -> Iterator[str]:
        yield from self._by_keys("delete_scheduled", "keys", changes.unscheduled)
        yield from self._inserts("insert_scheduled", (
            row((s.part, s.due, s.id, s.accepted_at, s.expires_at, s.key, s.attributes, s.size, s.body))
            for s in changes.scheduled
        ))  # fmt: skip
        yield from self._delays(changes.delays)

    def _delays(self, delays: Sequence[Delay]) -> Iterator[str]:
        yield from self._inserts("count_delayed", (row((delay.part, delay.change)) for delay in delays))
        for some in in_steps([delay.part for delay in delays]):
            yield self._sql["next_due"] % {"numbers": wanted(some)}
            yield self._sql["forget_no_delay"] % {"numbers": wanted(some)}

    def _lock_rows(self, changes: Changes) -> Iterator[str]:
        yield from self._inserts("put_partitions", (
            row((p.part, p.version, p.first, p.swept)) for p in changes.partitions
        ))  # fmt: skip
        yield from self._inserts("put_cursors", map(row, changes.cursors))
        yield from self._by_keys("remove_partitions", "numbers", changes.removed_partitions)
        yield from self._by_keys("remove_cursors", "pairs", changes.removed_cursors)

    def bulk(self, messages: MessageColumns) -> tuple[str, Iterator[list[tuple[Value, ...]]]]:
        """A statement to prepare for these messages, and its rows. A column that is NULL in every row is left out."""
        columns = {name: column for name, column in _columns(messages).items() if any(v is not None for v in column)}
        if "key" in columns:
            columns["key"] = [None if key is None else encoded(key) for key in messages.keys]
        statement = self._sql["insert_messages_bulk"] % {
            "columns": ",".join(f"`{name}`" for name in columns),
            "marks": ",".join("?" for _ in columns),
        }
        return statement, batches(zip(*columns.values(), strict=True), self._limit_bytes)

    def _inserts(self, name: str, tuples: Iterable[str]) -> Iterator[str]:
        return inserts(self._sql[name], tuples, self._limit_bytes)

    def _by_keys(self, name: str, list_name: str, keys: Sequence[Value | tuple[Value, ...]]) -> Iterator[str]:
        return (self._sql[name] % {list_name: wanted(some)} for some in in_steps(keys))

    def _fence(self, count: int) -> str:
        return self._sql["fence"] % {"count": count}


def _columns(m: MessageColumns) -> dict[str, Sequence[Value]]:
    return {
        "part": m.parts, "seq": m.seqs, "id": m.ids, "accepted_at": m.accepted_at, "published_at": m.published_at,
        "expires_at": m.expires_at, "due_at": m.due_at, "key": m.keys, "attributes": m.attributes,
        "origin": m.origins, "size": m.sizes, "body": m.bodies,
    }  # fmt: skip


def _message_rows(m: MessageColumns) -> Iterator[str]:
    columns = [column or repeat(None) for column in _columns(m).values()]
    return (row(values) for values in zip(*columns, strict=False)) if m.parts else iter(())
