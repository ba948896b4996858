"""A draft: what one cycle is about to write, decided against what is remembered or against what was read under lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from msgspec import Struct

from rowlock.broker.memory import Memory, Partition
from rowlock.ledger import stored
from rowlock.ledger.ledger import Ledger
from rowlock.settings import TopicSettings
from rowlock.store.port import (
    Changes,
    Cursor,
    Deduplicated,
    Delay,
    MessageColumns,
    PageDrop,
    PageRow,
    PageWrite,
    PartitionRow,
    Scheduled,
    Stored,
    Turn,
)

_T = TypeVar("_T")


class Batch(Struct):
    """Messages of one caller for one partition, by column; an empty column is all None."""

    ids: list[bytes]
    bodies: list[bytes]
    sizes: list[int]
    keys: list[str | None]
    attributes: list[bytes | None]
    expires_at: list[int | None]
    due_at: list[int | None]
    origins: list[bytes | None]
    accepted_at: list[int]
    """Empty: when they are published."""


def batch_of_moved(
    messages: Sequence[Stored], settings: TopicSettings, now: int, origins: Sequence[bytes] = ()
) -> Batch:
    """Messages that go from one log to another, which says anew when they expire."""
    expires_at = None if settings.expires_in is None else now + int(settings.expires_in * 1000)
    return Batch(
        ids=[one.id for one in messages],
        bodies=[one.body for one in messages],
        sizes=[one.size for one in messages],
        keys=[one.key for one in messages],
        attributes=[one.attributes for one in messages],
        expires_at=[expires_at] * len(messages) if expires_at is not None else [],
        due_at=[],
        origins=[*origins],
        accepted_at=[one.accepted_at for one in messages],
    )


class _Appended(NamedTuple):
    part: int
    start: int
    published_at: int
    batch: Batch


class Draft:
    """One cycle's decision. It ends with `committed` or `undo`."""

    def __init__(self, memory: Memory, turn: Turn, now: int):
        self.memory = memory
        self.turn = turn
        self.stamp = turn.stamp
        self.now = now
        self.changes = Changes(turn=turn, decided_at=now)
        self.seen: dict[tuple[int, str, str], Deduplicated] = {}
        """Deduplication ids that are remembered, stored or new in this draft."""
        self.live_from: dict[Cursor, int] = {}
        """Everything from the frontier to here (exclusive) has expired."""
        self.distrusted: set[Cursor] = set()
        """Ledgers that do not agree with the log as it was read: to be loaded anew."""
        self.demands: dict[Cursor, int] = {}
        """How many messages all claims of this cycle together want of each ledger."""
        self._ledgers: dict[Cursor, Ledger] = {}
        self._partitions: dict[int, tuple[int, int]] = {}
        self._appended: list[_Appended] = []
        self._images: dict[Cursor, stored.Image] = {}
        self._raised: dict[int, tuple[int, int]] = {}

    # What a work decides with

    def ledger(self, cursor: Cursor) -> Ledger:
        """The ledger, in this decision."""
        ledger = self._ledgers.get(cursor)
        if ledger is None:
            ledger = self._ledgers[cursor] = self.memory.ledgers[cursor].ledger
            ledger.begin(self.now)
        return ledger

    def distrust(self, cursors: Iterable[Cursor]) -> None:
        self.distrusted.update(cursors)

    def partition(self, part: int) -> Partition:
        return self.memory.partitions[part]

    def last(self, part: int) -> int:
        """The last sequence, this draft's own included."""
        known = self._partitions.get(part)
        return known[0] if known is not None else self.memory.partitions[part].last

    def log(self, part: int) -> dict[int, Stored]:
        return self.memory.log(part)

    def append(self, part: int, batch: Batch) -> int:
        """Append a batch to a partition; returns its first sequence."""
        partition = self.memory.partitions[part]
        last, last_at = self._partitions.get(part) or (partition.last, partition.last_at or 0)
        published_at = max(self.now, last_at)
        self._partitions[part] = (last + len(batch.ids), published_at)
        appended = _Appended(part, last + 1, published_at, batch)
        self._appended.append(appended)
        if part in self.memory.readers:
            self.memory.learn(part, _as_stored(appended))
        return last + 1

    def saw(self, row: Deduplicated) -> None:
        """A deduplication id is remembered by the database."""
        key = (row.part, row.scope, row.id)
        if key not in self.seen or self.seen[key].at < row.at:
            self.seen[key] = row

    def unschedule(self, part: int, rows: list[Scheduled]) -> list[Scheduled]:
        """Take messages out of a partition's schedule. Returns those that another work of this draft has not taken
        out."""
        taken = set(self.changes.unscheduled)
        fresh = [row for row in rows if (part, row.due, row.id) not in taken]
        if fresh:
            self.changes.unscheduled += [(part, row.due, row.id) for row in fresh]
            self.changes.delays.append(Delay(part, -len(fresh)))
        return fresh

    def raise_first(self, part: int, first: int, swept: int) -> None:
        """Retention: below `first` nothing is held any more, and below `swept` the rows are gone."""
        self._raised[part] = (first, swept)

    # What becomes of it

    @property
    def is_empty(self) -> bool:
        changes = self.changes
        return not (
            self._appended
            or self._raised
            or changes.scheduled
            or changes.unscheduled
            or changes.deduplicated
            or changes.partitions
            or changes.progress
            or any(ledger.touched for ledger in self._ledgers.values())
        )

    @property
    def appended_parts(self) -> set[int]:
        return {one.part for one in self._appended}

    @property
    def touched_cursors(self) -> list[Cursor]:
        """Ledgers that this draft changed (known once it is finished)."""
        return list(self._images)

    @property
    def cursors(self) -> list[Cursor]:
        return list(self._ledgers)

    def finish(self, versions: dict[Cursor, int], part_versions: dict[int, int]) -> Changes:
        """All that is to be written, and what it was decided against."""
        changes = self.changes
        changes.messages = _columns(self._appended)
        changes.delays = [Delay(part, change) for part, change in _summed(changes.delays).items()]
        for cursor in sorted(self._ledgers):
            ledger = self._ledgers[cursor]
            head = ledger.pages.get(ledger.head)
            changes.expected_cursors.append((*cursor, versions[cursor], head.stamp if head else 0))
            if ledger.touched:
                self._save(cursor, ledger)
        for part in sorted(part_versions):
            changes.expected_parts.append((part, part_versions[part], self.memory.partitions[part].last))
        for part, (first, swept) in self._raised.items():
            known = self.memory.partitions[part]
            changes.partitions.append(PartitionRow(part=part, version=known.version, first=first, swept=swept))
        return changes

    def _save(self, cursor: Cursor, ledger: Ledger) -> None:
        image = self._images[cursor] = stored.image(ledger)
        (part, sub), stamp, frontier = cursor, self.stamp, ledger.frontier
        for save in image.saves:
            row = PageRow(part, sub, save.page, save.era, stamp, frontier, ledger.outstanding, ledger.at, save.data)
            self.changes.pages.append(PageWrite(row, save.was))
        for drop in image.drops:
            self.changes.dropped_pages.append(PageDrop(part, sub, drop.page, drop.era, drop.was))

    def committed(self) -> None:
        """COMMIT has succeeded: what is remembered changes now."""
        for cursor, ledger in self._ledgers.items():
            image = self._images.get(cursor)
            if image is None:
                ledger.commit()
            else:
                stored.committed(ledger, image, self.stamp)
        for part, (last, last_at) in self._partitions.items():
            partition = self.memory.partitions[part]
            partition.last, partition.last_at = last, last_at
        for part, (first, swept) in self._raised.items():
            self.memory.partitions[part].first, self.memory.partitions[part].swept = first, swept

    def undo(self) -> None:
        """As if it had never been decided."""
        for ledger in self._ledgers.values():
            ledger.rollback()
        for part, start, _, batch in self._appended:
            self.memory.unlearn(part, range(start, start + len(batch.ids)))


def _summed(delays: list[Delay]) -> dict[int, int]:
    """One change for each partition, however many works schedule in it."""
    changes: dict[int, int] = {}
    for delay in delays:
        changes[delay.part] = changes.get(delay.part, 0) + delay.change
    return changes


def _as_stored(appended: _Appended) -> list[Stored]:
    part, start, published_at, batch = appended
    count = len(batch.ids)
    nothing = [None] * count
    return [
        Stored(part, seq, id_, accepted_at, published_at, expires_at, due_at, key, attributes, origin, size, body)
        for seq, id_, accepted_at, expires_at, due_at, key, attributes, origin, size, body in zip(
            range(start, start + count),
            batch.ids,
            batch.accepted_at or [published_at] * count,
            batch.expires_at or nothing,
            batch.due_at or nothing,
            batch.keys or nothing,
            batch.attributes or nothing,
            batch.origins or nothing,
            batch.sizes,
            batch.bodies,
            strict=True,
        )
    ]


def _columns(appended: list[_Appended]) -> MessageColumns:
    """The batches as one set of columns."""
    columns = MessageColumns()
    for part, start, published_at, batch in appended:
        count = len(batch.ids)
        columns.parts += [part] * count
        columns.seqs += range(start, start + count)
        columns.ids += batch.ids
        columns.accepted_at += batch.accepted_at or [published_at] * count
        columns.published_at += [published_at] * count
        columns.sizes += batch.sizes
        columns.bodies += batch.bodies
    columns.expires_at = _sparse([batch.expires_at for *_, batch in appended], appended)
    columns.due_at = _sparse([batch.due_at for *_, batch in appended], appended)
    columns.keys = _sparse([batch.keys for *_, batch in appended], appended)
    columns.attributes = _sparse([batch.attributes for *_, batch in appended], appended)
    columns.origins = _sparse([batch.origins for *_, batch in appended], appended)
    return columns


def _sparse(parts: list[list[_T | None]], appended: list[_Appended]) -> list[_T | None]:
    """A column that is empty in some batches, or in all."""
    if not any(parts):
        return []
    column: list[_T | None] = []
    for values, (*_, batch) in zip(parts, appended, strict=True):
        column += values or [None] * len(batch.ids)
    return column
