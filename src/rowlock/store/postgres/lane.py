"""One connection to one lane's tables: the port's `Lane` over asyncpg."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from msgspec.structs import astuple

from rowlock import limits
from rowlock.store import statements
from rowlock.store.faults import Lost, Misuse, StoreFault
from rowlock.store.port import (
    Attempt,
    CursorRow,
    Deduplicated,
    PageRow,
    PartitionRow,
    Position,
    Scheduled,
    Stored,
    View,
)
from rowlock.store.postgres import arguments
from rowlock.store.postgres.connect import rows_changed
from rowlock.store.postgres.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from asyncpg import Connection, PostgresLogMessage
    from asyncpg.prepared_stmt import PreparedStatement

    from rowlock.store.port import Changes, Cursor, Scope, Turn, Wanted

T = TypeVar("T")

CLOCK = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
PACKAGE = "rowlock.store.postgres"
PARAMETER = re.compile(r"(\w+) (?:bigint|bytea|text)")
ATTEMPTS = ("attempt_one", "attempt")
COMMITTED_NOT_REPLICATED = "01000"
"""A notice at COMMIT: somebody ended the wait for the synchronous standby."""


def schema_of(lane: int) -> str:
    return f"rowlock_lane_{lane}"


def names_of(lane: int) -> dict[str, str]:
    """What the placeholders in this lane's statements stand for."""
    names = {"lane": schema_of(lane), "clock": CLOCK, "clock_tolerance": str(limits.CYCLE_CLOCK_MS)}
    functions = statements.load(PACKAGE, "functions.sql")
    put = functions["put_parameters"]
    compared, one = (_parameters(functions[name]) for name in ("attempt", "attempt_one"))
    written = PARAMETER.findall(put)
    return names | {
        "code": code_of(functions),
        "put_parameters": put,
        "put_arguments": ", ".join(written),
        "put_numbers": numbers(len(written)),
        "attempt_numbers": numbers(len(compared) + len(written)),
        "attempt_one_numbers": numbers(len(one)),
    }


def code_of(functions: dict[str, str]) -> str:
    """The functions' names carry this, so that brokers of two releases can work on one database, each with its own."""
    return f"{crc32(''.join(functions.values()).encode()):08x}"


def _parameters(function: str) -> list[str]:
    return PARAMETER.findall(function.partition("(")[2].partition(") returns")[0])


def numbers(count: int) -> str:
    """`$1, $2, ...`"""
    return ", ".join(f"${number}" for number in range(1, count + 1))


class PostgresLane:
    """See `port.Lane`."""

    compares = True

    def __init__(self, connection: Connection, number: int):
        self.clock_shift = 0
        self._connection = connection
        self._sql = statements.load(PACKAGE, "lane.sql", **names_of(number))
        self._guard = Guard(connection)
        self._attempts: dict[str, PreparedStatement] = {}
        self._in_transaction = False
        self._unsure = False
        connection.add_log_listener(self._notice)

    async def prepare(self) -> None:
        """Once, before the first cycle: what every cycle sends is kept at hand."""
        with self._guard():
            self._attempts = {name: await self._connection.prepare(self._sql[name]) for name in ATTEMPTS}

    # Transactions

    async def lock(self, scope: Scope) -> View:
        await self._call(self._connection.execute("begin"))
        self._in_transaction = True
        rows = await self._fetch("lock", *arguments.of_scope(scope))
        return self._view(rows, scope)

    async def write(self, changes: Changes) -> None:
        if not self._in_transaction:
            raise Misuse("write without a transaction that lock began")
        await self._fetch("put", *arguments.of_changes(changes))
        await self._call(self._connection.execute("commit"), committing=True)
        self._in_transaction = False

    async def rollback(self) -> None:
        if self._in_transaction:
            self._in_transaction = False
            await self._call(self._connection.execute("rollback"))

    async def attempt(self, changes: Changes) -> Attempt:
        name, values = "attempt_one", arguments.of_one(changes, self.clock_shift)
        if values is None:
            name, values = "attempt", arguments.of_attempt(changes, self.clock_shift)
        with self._guard(committing=True):
            rows = await self._attempts[name].fetch(*values)
        self._check_replicated()
        clock = rows[0][0]
        return Attempt(clock > 0, abs(clock) + self.clock_shift)

    async def fence(self, turn: Turn) -> bool:
        values = (turn.writer, turn.stamp, turn.previous_writer, turn.previous)
        committed: bool = (await self._fetch("fence", *values))[0][0]
        return committed

    def _view(self, rows: Sequence[Any], scope: Scope) -> View:
        view = View(0, {}, {}, {})
        for what, numbers, data in rows:
            if what == b"g":
                page = PageRow(*[*numbers, data])
                view.pages[page.part, page.sub].append(page)
            elif what == b"l":
                part, sub, version, *head = numbers
                head_row = None if head[0] is None else PageRow(*[part, sub, *head, None])
                view.cursors[part, sub] = CursorRow(part, sub, version, head_row)
                if scope.known.get((part, sub), (None,))[0] != (head_row.stamp if head_row else 0):
                    view.pages[part, sub] = []
            elif what == b"p":
                view.partitions[numbers[0]] = PartitionRow(*numbers)
            else:
                view.clock = numbers[0] + self.clock_shift
        return view

    # Reads

    async def messages(self, ranges: Sequence[Wanted], seqs: Sequence[tuple[int, int]]) -> list[Stored]:
        found = []
        if ranges:
            found += await self._fetch("ranges", *arguments.columns(map(astuple, ranges), 4))
        if seqs:
            found += await self._fetch("single", *arguments.columns(seqs, 2))
        return [Stored(*row) for row in found]

    async def first_live(self, part: int, start: int, steps: int, now: int) -> tuple[int, bool]:
        seq, live = (await self._fetch("first_live", part, start, steps, now))[0]
        return seq, live

    async def duplicates(self, keys: Sequence[tuple[int, int, str, str]]) -> list[Deduplicated]:
        return [Deduplicated(*row) for row in await self._fetch("duplicates", *arguments.columns(keys, 4))]

    async def due(self, part: int, now: int, limit: int) -> list[Scheduled]:
        return [Scheduled(*row) for row in await self._fetch("due", part, now, limit)]

    async def parts_due(self, now: int) -> list[int]:
        return [row[0] for row in await self._fetch("parts_due", now)]

    async def positions(self, cursors: Sequence[Cursor]) -> list[Position]:
        return [Position(*row) for row in await self._fetch("positions", *arguments.columns(cursors, 2))]

    async def all_cursors(self, after: Cursor, limit: int) -> list[Cursor]:
        return [(part, sub) for part, sub in await self._fetch("all_cursors", *after, limit)]

    async def partition_rows(self, parts: Sequence[int]) -> list[PartitionRow]:
        return [PartitionRow(*row) for row in await self._fetch("partition_rows", parts)]

    async def pages(self, cursor: Cursor) -> list[PageRow]:
        return [PageRow(*row) for row in await self._fetch("pages", *cursor)]

    async def sequence_at(self, part: int, time: int) -> int:
        return await self._number("sequence_at", part, time)

    async def progress(self, move: int) -> int:
        return await self._number("progress", move)

    async def clock(self) -> int:
        return await self._number("clock") + self.clock_shift

    # Deletions, each a transaction of its own

    async def delete_messages(self, part: int, start: int, stop: int) -> int:
        return await self._execute(self._sql["delete_messages"], part, start, stop)

    async def delete_deduplicated(self, part: int, bucket: int, limit: int) -> int:
        return await self._execute(self._sql["delete_deduplicated"], part, bucket, limit)

    async def delete_remains(self, part: int, sub: int | None, limit: int) -> int:
        if sub is not None:
            return await self._execute(self._sql["delete_ledger"], part, sub, limit)
        deleted = 0
        for table in ("messages", "pages", "dedup", "scheduled", "delays"):
            if deleted < limit:
                sql = self._sql["delete_part_of"].replace("{table}", table)
                deleted += await self._execute(sql, part, limit - deleted)
        return deleted

    async def delete_writers(self, before: int) -> None:
        await self._execute(self._sql["delete_writers"], before - self.clock_shift)

    async def close(self) -> None:
        self._guard.close()
        self._connection.terminate()

    # Calls

    async def _fetch(self, name: str, *values: Any) -> list[Any]:
        return await self._call(self._connection.fetch(self._sql[name], *values))

    async def _number(self, name: str, *values: Any) -> int:
        number: int = (await self._fetch(name, *values))[0][0]
        return number

    async def _execute(self, sql: str, *values: Any) -> int:
        return rows_changed(await self._call(self._connection.execute(sql, *values)))

    async def _call(self, awaitable: Awaitable[T], *, committing: bool = False) -> T:
        try:
            with self._guard(committing=committing):
                answer = await awaitable
        except StoreFault:
            # A lost connection has no transaction any more, and the next call finds out that it is lost.
            with suppress(Lost):
                await self.rollback()
            raise
        self._check_replicated()
        return answer

    def _check_replicated(self) -> None:
        if self._unsure:
            self._connection.terminate()
            raise Lost("the wait for the synchronous standby was ended by somebody", committing=True)

    def _notice(self, _connection: object, notice: PostgresLogMessage) -> None:
        self._unsure = self._unsure or notice.sqlstate == COMMITTED_NOT_REPLICATED
