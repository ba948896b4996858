"""What a lane reads, inside a transaction or outside, and rows as the port's structs."""

from __future__ import annotations

from itertools import groupby, starmap
from typing import TYPE_CHECKING, Any

from rowlock.store.mariadb.literals import in_steps, wanted
from rowlock.store.port import CursorRow, Deduplicated, PageRow, PartitionRow, Position, Scheduled, Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowlock.store.mariadb.connection import Connection
    from rowlock.store.port import Cursor, Wanted

Row = tuple[Any, ...]

WHOLE = 0
"""In the place of a subscription: all of them. No subscription has this id."""


class Reading:
    """The reads of `store.port.Lane`."""

    def __init__(self, connection: Connection, sql: dict[str, str]) -> None:
        self.clock_shift = 0
        self._connection = connection
        self._sql = sql

    async def messages(self, ranges: Sequence[Wanted], seqs: Sequence[tuple[int, int]]) -> list[Stored]:
        statements = [
            self._sql["messages_range"] % {"part": w.part, "start": w.start, "stop": w.stop, "bytes": w.bytes}
            for w in ranges
        ]
        statements += [self._sql["messages_chosen"] % {"pairs": wanted(some)} for some in in_steps(seqs)]
        return [Stored(*row) for row in await self._all(statements)]

    async def first_live(self, part: int, start: int, steps: int, now: int) -> tuple[int, bool]:
        first = await self._number("first_row", part=part, start=start)
        if first is None:
            return start, False
        stop = first + steps
        live = await self._number("first_live", part=part, start=first, stop=stop, now=now)
        if live is not None:
            return live, True
        last = await self._number("last_looked_at", part=part, start=first, stop=stop)
        return (first if last is None else last + 1), False

    async def duplicates(self, keys: Sequence[tuple[int, int, str, str]]) -> list[Deduplicated]:
        statements = [self._sql["duplicates"] % {"keys": wanted(some)} for some in in_steps(keys)]
        return [Deduplicated(*row) for row in await self._all(statements)]

    async def due(self, part: int, now: int, limit: int) -> list[Scheduled]:
        return list(starmap(Scheduled, await self._rows("due", part=part, now=now, limit=limit)))

    async def parts_due(self, now: int) -> list[int]:
        return [part for (part,) in await self._rows("parts_due", now=now)]

    async def positions(self, cursors: Sequence[Cursor]) -> list[Position]:
        statements = [self._sql["positions"] % {"pairs": wanted(some)} for some in in_steps(sorted(set(cursors)))]
        return [Position(*row, *_numbers(head)) for *row, head in await self._all(statements)]

    async def all_cursors(self, after: Cursor, limit: int) -> list[Cursor]:
        part, sub = after
        return [(part, sub) for part, sub in await self._rows("all_cursors", part=part, sub=sub, limit=limit)]

    async def partition_rows(self, parts: Sequence[int]) -> list[PartitionRow]:
        statements = [self._sql["partitions"] % {"numbers": wanted(some)} for some in in_steps(sorted(set(parts)))]
        return [partition_row(row) for row in await self._all(statements)]

    async def pages(self, cursor: Cursor) -> list[PageRow]:
        return [page_row(row) for row in await self._rows("pages", pairs=wanted([cursor]), data="g.data")]

    async def sequence_at(self, part: int, time: int) -> int:
        low = await self._number("first_row", part=part, start=0)
        last = await self._number("last_row", part=part)
        if low is None or last is None:
            return 1
        high = last + 1
        while low < high:
            middle = (low + high) // 2
            published_at = await self._number("published_at", part=part, seq=middle)
            # None: the partition was removed during the search.
            low, high = (low, middle) if published_at is None or published_at >= time else (middle + 1, high)
        return low

    async def progress(self, move: int) -> int:
        ((moved,),) = await self._rows("progress", move=move)
        return int(moved)

    async def clock(self) -> int:
        ((now,),) = await self._rows("clock")
        return int(now) + self.clock_shift

    async def _rows(self, name: str, **values: int | str) -> tuple[Row, ...]:
        return await self._connection.rows(self._sql[name] % values)

    async def _number(self, name: str, **values: int) -> int | None:
        """The one number that a statement finds, if any."""
        found = await self._rows(name, **values)
        return found[0][0] if found else None

    async def _all(self, statements: Sequence[str]) -> list[Row]:
        return [row for answer in await self._connection.run(*statements) for row in answer.rows]


def cursor_statements(named: str, of_parts: str, cursors: Iterable[Cursor], whole: Iterable[int]) -> Iterator[str]:
    """Statements that find these cursors, and all of whole partitions, in the order of locks."""
    every = set(whole)
    keys = {cursor for cursor in cursors if cursor[0] not in every} | {(part, WHOLE) for part in every}
    for is_whole, run in groupby(sorted(keys), lambda key: key[1] == WHOLE):
        for some in in_steps(list(run)):
            if is_whole:
                yield of_parts % {"numbers": wanted(part for part, _ in some)}
            else:
                yield named % {"pairs": wanted(some)}


def partition_row(row: Row) -> PartitionRow:
    part, version, first, swept, newest, waiting, next_due = row
    last, last_at = _numbers(newest or "0,0")
    return PartitionRow(part, version, first, swept, last, last_at, waiting, next_due)


def cursor_row(row: Row) -> CursorRow:
    part, sub, version, newest = row
    if newest is None:
        return CursorRow(part, sub, version, None)
    page, era, stamp, frontier, outstanding, at = _numbers(newest)
    return CursorRow(part, sub, version, PageRow(part, sub, page, era, stamp, frontier, outstanding, at, None))


def page_row(row: Row) -> PageRow:
    return PageRow(*row)


def _numbers(text: str) -> map[int]:
    return map(int, text.split(","))
