"""One SQLite file: checks the library, prepares the file, opens connections."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock import errors, limits
from rowlock.store.faults import Misuse, NotReplicated
from rowlock.store.port import Durability
from rowlock.store.sqlite.connection import Connection
from rowlock.store.sqlite.control import SqliteControl
from rowlock.store.sqlite.lane import SqliteLane
from rowlock.store.sqlite.schema import lane_prefix, migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.store.port import Control, Lane

SCHEME = "sqlite:///"
OLDEST = (3, 35, 0)
"""The first with RETURNING."""
SYNCHRONOUS = {Durability.LOCAL: "full", Durability.RELAXED: "normal"}
PAGE_BYTES = 8192
"""A page of a ledger (under 2 kB) still lies whole in its row; with 4096 it would spill."""


class SqliteStore:
    """See `store.port.Store`."""

    dialect = "sqlite"
    hints = False
    hint_poll_ms = 280

    def __init__(self, url: str) -> None:
        self._path = path_of(url)
        self.lanes = 0
        self._control: SqliteControl | None = None

    async def open(self, lanes: int | None = None) -> None:
        _check_library()
        _check_lanes(lanes)
        connection = self._connect(Durability.LOCAL)
        try:
            await connection.patiently(lambda: _use_log(connection))
            self.lanes = await migrate(connection, lanes)
        except BaseException:
            connection.close()
            raise
        self._control = SqliteControl(connection)

    @property
    def control(self) -> Control:
        if self._control is None:
            raise Misuse(f"the store of {self._path} is not open")
        return self._control

    async def lane(self, number: int, durability: Durability) -> Lane:
        if number not in range(self.lanes):
            raise Misuse(f"there is no lane {number}: {self._path} has {self.lanes}")
        if durability is Durability.REPLICATED:
            raise NotReplicated("SQLite has no standby: replicated durability needs PostgreSQL or MariaDB")
        return SqliteLane(self._connect(durability), lane_prefix(number))

    async def hint(self, parts: Sequence[int]) -> None:
        """Nothing: SQLite has no way to tell other processes; they poll."""

    async def listen(self, heard: Callable[[Sequence[int] | None], None]) -> None:
        """Nothing is ever heard, as above."""

    async def close(self) -> None:
        if self._control is not None:
            await self._control.close()
            self._control = None

    def _connect(self, durability: Durability) -> Connection:
        if not self._path.parent.is_dir():
            raise errors.InvalidArgument(f"the folder {self._path.parent} of the database does not exist")
        return Connection(self._path, SYNCHRONOUS[durability])


def path_of(url: str) -> Path:
    """The absolute path that a URL names: sqlite:///relative.db or sqlite:////absolute.db."""
    if not url.startswith("sqlite:"):
        raise errors.InvalidArgument(f"{url!r} is not a SQLite address; write sqlite:///file.db")
    name = url.removeprefix(SCHEME)
    if name in (url, "", ":memory:") or ":memory:" in url:
        raise errors.InvalidArgument(
            f"{url!r} names no file; Rowlock keeps messages durably, so there is no database in memory: "
            "write sqlite:///relative.db or sqlite:////absolute.db"
        )
    if "?" in name or "\0" in name:
        raise errors.InvalidArgument(f"{url!r}: a SQLite address takes no options, and a file name no NUL or '?'")
    return Path(name).resolve()


def _check_library() -> None:
    if sqlite3.sqlite_version_info < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise errors.ServerTooOld(f"Rowlock needs SQLite {needed} or newer; this Python has {sqlite3.sqlite_version}")


def _check_lanes(lanes: int | None) -> None:
    if lanes is not None and not 1 <= lanes <= limits.LANES_COUNT:
        raise errors.InvalidArgument(f"a database has 1 to {limits.LANES_COUNT} lanes, not {lanes}")


def _use_log(connection: Connection) -> None:
    """Write-ahead log: readers and the writer do not block each other. The page size is that of a new file only."""
    connection.run(f"pragma page_size = {PAGE_BYTES}")
    ((mode,),) = connection.rows("pragma journal_mode = wal")
    if mode != "wal":
        raise errors.ServerUnsafe(
            f"{connection.path} cannot have a write-ahead log (journal mode {mode}): use a local disk"
        )
