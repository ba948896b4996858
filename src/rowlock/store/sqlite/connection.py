"""One SQLite connection: transactions that take turns within the process, and wait for other processes with a bound."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from rowlock import limits
from rowlock.store.faults import Contended, Lost, Misuse
from rowlock.store.sqlite.errors import classified

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    Parameters = Sequence[Any] | Mapping[str, Any]
    Row = tuple[Any, ...]

Result = TypeVar("Result")

PAUSE_SHORTEST_SECONDS = 0.0005
PAUSE_LONGEST_SECONDS = 0.008

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, asyncio.Lock]] = WeakKeyDictionary()
"""One lock per file: connections of one process queue up here and do not spin against each other. An asyncio lock
belongs to one event loop; loops of different threads meet at SQLite's own lock, as processes do."""


def now() -> int:
    """SQLite runs in this process, so its clock is this one."""
    return time.time_ns() // 1_000_000


class Connection:
    """A connection whose transactions are all `begin` (awaited), then inline calls, then `commit` or `rollback`."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self.path = path
        with classified():
            self._database: sqlite3.Connection | None = sqlite3.connect(path, timeout=0, isolation_level=None)
            self._database.execute(f"pragma synchronous = {synchronous}")
            # Without it, macOS answers a flush while the drive still holds the data in its cache.
            self._database.execute("pragma fullfsync = on")
        self._turn: asyncio.Lock | None = None

    @property
    def in_transaction(self) -> bool:
        return self._turn is not None

    def run(self, sql: str, parameters: Parameters = ()) -> int:
        """Execute one statement; the number of rows it changed."""
        with classified():
            return self._live().execute(sql, parameters).rowcount

    def many(self, sql: str, rows: Iterable[Parameters]) -> int:
        """Execute a statement for every row; the number of rows it changed in all."""
        with classified():
            return self._live().executemany(sql, rows).rowcount

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        with classified():
            return self._live().execute(sql, parameters).fetchall()

    def rows_while(self, sql: str, parameters: Parameters, wanted: Callable[[Row], bool]) -> list[Row]:
        """Rows up to the first that is not wanted; the rest is never read from the file."""
        with classified():
            cursor = self._live().execute(sql, parameters)
            try:
                found = []
                for row in cursor:
                    if not wanted(row):
                        break
                    found.append(row)
                return found
            finally:
                cursor.close()

    async def read(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Rows, inside a transaction or outside."""
        return await self.patiently(lambda: self.rows(sql, parameters))

    async def patiently(self, action: Callable[[], Result]) -> Result:
        """Try again for a while when another process is in the way."""
        deadline = time.monotonic() + limits.LOCK_HOLD_SECONDS
        pause = PAUSE_SHORTEST_SECONDS
        while True:
            try:
                return action()
            except Contended:
                if self._live().in_transaction or time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 1.5, PAUSE_LONGEST_SECONDS)

    async def begin(self) -> None:
        """Begin a transaction with the file's only write lock; every read in it sees what the lock saw."""
        if self._turn is not None:
            raise Misuse("a transaction is open already on this connection")
        self._live()
        turn = _turns.setdefault(asyncio.get_running_loop(), {}).setdefault(self.path, asyncio.Lock())
        await _acquire(turn)
        self._turn = turn
        try:
            await self.patiently(lambda: self.run("begin immediate"))
        except BaseException:
            self._give_up_turn()
            raise

    def commit(self) -> None:
        try:
            with classified(committing=True):
                self._live().execute("commit")
        except BaseException:
            self.rollback()
            raise
        self._give_up_turn()

    def rollback(self) -> None:
        """Harmless when no transaction is open. SQLite has rolled back by itself after some errors."""
        try:
            if self._database is not None and self._database.in_transaction:
                self.run("rollback")
        finally:
            self._give_up_turn()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        await self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def close(self) -> None:
        """An open transaction is rolled back."""
        database, self._database = self._database, None
        if database is not None:
            database.close()
        self._give_up_turn()

    def _live(self) -> sqlite3.Connection:
        if self._database is None:
            raise Lost(f"the connection to {self.path} was closed")
        return self._database

    def _give_up_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()


async def _acquire(turn: asyncio.Lock) -> None:
    try:
        async with asyncio.timeout(limits.LOCK_HOLD_SECONDS):
            await turn.acquire()
    except TimeoutError:
        raise Contended("another connection of this process has held the file's write lock for too long") from None
