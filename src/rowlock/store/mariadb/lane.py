"""One connection to one lane: lock, write, fence, and the small transactions of background work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.store.faults import Misuse
from rowlock.store.mariadb.literals import NUMBERS, PAIRS, in_steps, wanted
from rowlock.store.mariadb.reading import Reading, cursor_row, cursor_statements, page_row, partition_row
from rowlock.store.mariadb.schema import PACKAGE
from rowlock.store.mariadb.writing import BULK_MESSAGES, Writing
from rowlock.store.port import View
from rowlock.store.statements import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowlock.store.mariadb.connection import Connection
    from rowlock.store.port import Attempt, Changes, Cursor, CursorRow, PageRow, Scope, Turn

REMAINS = ("messages", "pages", "dedup", "scheduled", "delays")
"""The tables in which a deleted partition leaves rows behind."""


class MariadbLane(Reading):
    """See `store.port.Lane`. A transaction is two round trips: `lock` with its reads, `write` with COMMIT.

    It is three where another process used a ledger in between, and where many messages go by the bulk command.
    """

    compares = False

    def __init__(self, connection: Connection, prefix: str) -> None:
        super().__init__(connection, load(PACKAGE, "reads.sql", lane=prefix, numbers=NUMBERS, pairs=PAIRS))
        self._writes = load(PACKAGE, "writes.sql", lane=prefix, numbers=NUMBERS, pairs=PAIRS)
        self._writing = Writing(self._writes, connection.packet_bytes)

    # The transaction

    async def lock(self, scope: Scope) -> View:
        sql = self._sql
        cursors = scope.cursors, scope.whole
        parts = {*scope.parts, *scope.whole}
        read_parts = list(_number_lists({*parts, *(part for part, _ in scope.cursors)}))
        locks = [
            *(sql["lock_partitions"] % {"numbers": some} for some in _number_lists(parts)),
            *cursor_statements(sql["lock_cursors"], sql["lock_cursors_of_parts"], *cursors),
        ]
        reads = [
            sql["clock"],
            *(sql["partitions"] % {"numbers": some} for some in read_parts),
            *cursor_statements(sql["cursors"], sql["cursors_of_parts"], *cursors),
        ]
        answers = await self._connection.begin(*locks, *reads)
        clock, *views = answers[len(locks) :]
        partitions = [partition_row(row) for answer in views[: len(read_parts)] for row in answer.rows]
        found = [cursor_row(row) for answer in views[len(read_parts) :] for row in answer.rows]
        return View(
            clock=clock.rows[0][0] + self.clock_shift,
            partitions={row.part: row for row in partitions},
            cursors={(row.part, row.sub): row for row in found},
            pages=await self._changed_pages(found, scope),
        )

    async def write(self, changes: Changes) -> None:
        if not self._connection.in_transaction:
            raise Misuse("write needs the transaction that lock begins")
        bulk = self._connection.bulk and len(changes.messages.parts) >= BULK_MESSAGES
        try:
            statements = list(self._writing.changes(changes, messages=not bulk))
            if bulk:
                await self._insert_many(changes)
        except BaseException:
            await self.rollback()
            raise
        await self._connection.commit(*statements)

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def attempt(self, changes: Changes) -> Attempt:
        raise Misuse("MariaDB cannot compare and write in one round trip: use lock and write")

    async def fence(self, turn: Turn) -> bool:
        """The row that the turn leaves or takes away is locked first: its transaction may still be at COMMIT."""
        wanted = [self._sql["lock_turn"] % {"writer": turn.writer}]
        if turn.previous_writer not in (None, turn.writer):
            wanted.append(self._sql["lock_turn"] % {"writer": turn.previous_writer})
        answers = await self._connection.begin(*wanted)
        found = answers[0].rows
        if found == ((turn.stamp,),):
            await self._connection.rollback()
            return True
        prevention = [] if turn.previous_writer is None and found else self._writing.prevent(turn, await self.clock())
        await self._connection.commit(*prevention)
        return False

    async def _insert_many(self, changes: Changes) -> None:
        statement, batches = self._writing.bulk(changes.messages)
        for batch in list(batches):
            await self._connection.insert_many(statement, batch)

    async def _changed_pages(self, found: Sequence[CursorRow], scope: Scope) -> dict[Cursor, list[PageRow]]:
        """The pages of the ledgers whose head is not the known one, without the data that is known."""
        pages: dict[Cursor, list[PageRow]] = {}
        old: list[tuple[int, int, int]] = []
        for cursor in found:
            head, known = scope.known.get((cursor.part, cursor.sub), (None, frozenset()))
            if (cursor.head.stamp if cursor.head else 0) != head:
                pages[cursor.part, cursor.sub] = []
                old += [(cursor.part, cursor.sub, stamp) for stamp in known]
        data = f"IF((g.part, g.sub, g.stamp) IN ({','.join(map(str, old))}), NULL, g.data)" if old else "g.data"
        reads = [self._sql["pages"] % {"pairs": wanted(some), "data": data} for some in in_steps(sorted(pages))]
        for answer in await self._connection.run(*reads):
            for row in answer.rows:
                page = page_row(row)
                pages[page.part, page.sub].append(page)
        return pages

    # Background work: each step is a transaction of its own

    async def delete_messages(self, part: int, start: int, stop: int) -> int:
        return await self._step(self._writes["delete_messages"] % {"part": part, "start": start, "stop": stop})

    async def delete_deduplicated(self, part: int, bucket: int, limit: int) -> int:
        return await self._step(self._writes["delete_deduplicated"] % {"part": part, "bucket": bucket, "limit": limit})

    async def delete_remains(self, part: int, sub: int | None, limit: int) -> int:
        if sub is not None:
            return await self._step(self._writes["delete_pages"] % {"part": part, "sub": sub, "limit": limit})
        deleted = 0
        for table in REMAINS:
            statement = self._writes["delete_remains"] % {"table": table, "part": part, "limit": limit - deleted}
            deleted += await self._step(statement)
            if deleted >= limit:
                break
        return deleted

    async def delete_writers(self, before: int) -> None:
        old = await self._connection.rows(self._sql["old_writers"] % {"before": before})
        for some in in_steps([writer for (writer,) in old]):
            await self._step(self._writes["delete_writers"] % {"numbers": wanted(some), "before": before})

    async def close(self) -> None:
        self._connection.drop()

    async def _step(self, statement: str) -> int:
        if self._connection.in_transaction:
            raise Misuse("background work cannot share a transaction that lock began")
        (answer,) = await self._connection.run(statement)
        return answer.affected


def _number_lists(numbers: Iterable[int]) -> Iterator[str]:
    return map(wanted, in_steps(sorted(numbers)))
