"""One connection to one lane: lock, read, write, and the small transactions of background work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rowlock.store.faults import Misuse
from rowlock.store.port import CursorRow, Deduplicated, PageRow, PartitionRow, Position, Scheduled, Stored, View
from rowlock.store.sqlite.connection import now
from rowlock.store.sqlite.writing import Writing
from rowlock.store.statements import load

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from rowlock.store.port import Attempt, Changes, Cursor, Scope, Turn, Wanted
    from rowlock.store.sqlite.connection import Connection, Row

ANY_BUCKET = 2**63 - 1
"""Above every bucket."""
REMAINS_OF_PARTITION = (
    "remains_of_messages",
    "remains_of_pages",
    "remains_of_scheduled",
    "remains_of_delays",
)


def json(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()


class SqliteLane:
    """See `store.port.Lane`. One round trip is one function call here, so there is nothing for `attempt` to save."""

    compares = False

    def __init__(self, connection: Connection, prefix: str) -> None:
        self.clock_shift = 0
        self._connection = connection
        self._sql = load("rowlock.store.sqlite", "lane.sql", lane=prefix)
        self._writing = Writing(connection, self._sql)

    # The transaction

    async def lock(self, scope: Scope) -> View:
        await self._connection.begin()
        try:
            return self._view(scope)
        except BaseException:
            self._connection.rollback()
            raise

    async def write(self, changes: Changes) -> None:
        if not self._connection.in_transaction:
            raise Misuse("write needs the transaction that lock begins")
        try:
            self._writing.changes(changes)
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    async def rollback(self) -> None:
        self._connection.rollback()

    async def attempt(self, changes: Changes) -> Attempt:
        raise Misuse("SQLite has no round trip to save: use lock and write")

    async def fence(self, turn: Turn) -> bool:
        async with self._connection.transaction():
            if self._rows("committed_turn", turn.writer, turn.stamp):
                return True
            self._writing.prevent(turn, self._now())
            return False

    def _view(self, scope: Scope) -> View:
        wanted = set(scope.cursors)
        if scope.whole:
            wanted.update(self._rows("cursors_of_partitions", json(scope.whole)))
        cursors = {(row[0], row[1]): _cursor_row(row) for row in self._rows("cursors", json(wanted))} if wanted else {}
        pages = {}
        for cursor, row in cursors.items():
            head, known = scope.known.get(cursor, (None, frozenset()))
            if (row.head.stamp if row.head else 0) != head:
                pages[cursor] = [_without_known(page, known) for page in self._pages(cursor)]
        return View(
            clock=self._now(),
            partitions=self._partitions({*scope.parts, *(part for part, _ in cursors)}),
            cursors=cursors,
            pages=pages,
        )

    def _partitions(self, parts: Collection[int]) -> dict[int, PartitionRow]:
        rows = self._rows("partitions", json(parts)) if parts else []
        return {row[0]: PartitionRow(*row) for row in rows}

    def _pages(self, cursor: Cursor) -> list[PageRow]:
        return [PageRow(*row) for row in self._rows("pages", *cursor)]

    # Reads, inside a transaction or outside

    async def messages(self, ranges: Sequence[Wanted], seqs: Sequence[tuple[int, int]]) -> list[Stored]:
        found: list[Stored] = []
        for wanted in ranges:
            found.extend(await self._connection.patiently(lambda wanted=wanted: self._range(wanted)))  # type: ignore[misc]
        if seqs:
            found.extend(Stored(*row) for row in await self._read("messages_chosen", json(seqs)))
        return found

    def _range(self, wanted: Wanted) -> list[Stored]:
        parameters = (wanted.part, wanted.start, wanted.stop)
        rows = self._connection.rows_while(self._sql["messages_range"], parameters, _within(wanted.bytes))
        return [Stored(*row) for row in rows]

    async def first_live(self, part: int, start: int, steps: int, now: int) -> tuple[int, bool]:
        parameters = {"part": part, "start": start, "steps": steps, "now": now}
        for (seq,) in await self._connection.read(self._sql["first_live"], parameters):
            return seq, True
        ((seq,),) = await self._connection.read(self._sql["last_looked_at"], parameters)
        return (start if seq is None else seq + 1), False

    async def duplicates(self, keys: Sequence[tuple[int, int, str, str]]) -> list[Deduplicated]:
        return [Deduplicated(*row) for key in keys for row in await self._read("duplicate", *key)]

    async def due(self, part: int, now: int, limit: int) -> list[Scheduled]:
        return [Scheduled(*row) for row in await self._read("due", part, now, limit)]

    async def parts_due(self, now: int) -> list[int]:
        return [part for (part,) in await self._read("parts_due", now)]

    async def positions(self, cursors: Sequence[Cursor]) -> list[Position]:
        return [Position(*row) for row in await self._read("positions", json(cursors))]

    async def all_cursors(self, after: Cursor, limit: int) -> list[Cursor]:
        return [(part, sub) for part, sub in await self._read("all_cursors", *after, limit)]

    async def partition_rows(self, parts: Sequence[int]) -> list[PartitionRow]:
        return [PartitionRow(*row) for row in await self._read("partitions", json(parts))]

    async def pages(self, cursor: Cursor) -> list[PageRow]:
        return [PageRow(*row) for row in await self._read("pages", *cursor)]

    async def sequence_at(self, part: int, time: int) -> int:
        ((first, last),) = await self._connection.read(self._sql["bounds"], {"part": part})
        if last is None:
            return 1
        low, high = first, last + 1
        while low < high:
            middle = (low + high) // 2
            ((published_at,),) = await self._read("published_at", part, middle)
            low, high = (low, middle) if published_at >= time else (middle + 1, high)
        return int(low)

    async def progress(self, move: int) -> int:
        ((moved,),) = await self._read("progress", move)
        return int(moved)

    async def clock(self) -> int:
        return self._now()

    # Background work: each step is a transaction of its own

    async def delete_messages(self, part: int, start: int, stop: int) -> int:
        return await self._step("delete_messages", (part, start, stop))

    async def delete_deduplicated(self, part: int, bucket: int, limit: int) -> int:
        async with self._connection.transaction():
            return self._forget(part, bucket, limit)

    async def delete_remains(self, part: int, sub: int | None, limit: int) -> int:
        if sub is not None:
            return await self._step("remains_of_ledger", {"part": part, "sub": sub, "limit": limit})
        async with self._connection.transaction():
            deleted = self._forget(part, ANY_BUCKET, limit)
            for name in REMAINS_OF_PARTITION:
                deleted += self._connection.run(self._sql[name], {"part": part, "limit": limit - deleted})
        return deleted

    async def delete_writers(self, before: int) -> None:
        await self._step("delete_writers", (before,))

    async def close(self) -> None:
        self._connection.close()

    def _now(self) -> int:
        return now() + self.clock_shift

    def _rows(self, name: str, *parameters: Any) -> list[Row]:
        return self._connection.rows(self._sql[name], parameters)

    async def _read(self, name: str, *parameters: Any) -> list[Row]:
        return await self._connection.read(self._sql[name], parameters)

    def _forget(self, part: int, bucket: int, limit: int) -> int:
        keys = self._rows("deduplicated_below", part, bucket, limit)
        return self._connection.many(self._sql["delete_duplicate"], keys) if keys else 0

    async def _step(self, name: str, parameters: Any) -> int:
        async with self._connection.transaction():
            return self._connection.run(self._sql[name], parameters)


def _cursor_row(row: Row) -> CursorRow:
    part, sub, version, page, era, stamp, frontier, outstanding, at = row
    head = None if page is None else PageRow(part, sub, page, era, stamp, frontier, outstanding, at, None)
    return CursorRow(part, sub, version, head)


def _without_known(page: PageRow, known: frozenset[int]) -> PageRow:
    if page.stamp in known:
        page.data = None
    return page


def _within(limit_bytes: int) -> Callable[[Row], bool]:
    """Takes rows while their sizes stay within the bound; the first always."""
    taken = 0
    first = True

    def wanted(row: Row) -> bool:
        nonlocal taken, first
        taken += row[10]
        first, was_first = False, first
        return was_first or taken <= limit_bytes

    return wanted
