"""SQLite: a file in a temporary folder, and no server at all."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rowlock.bench.plain.sqlite import PlainSqlite
from rowlock.bench.servers.port import Server

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain

_SCHEME = "sqlite:///"


class SqliteServer(Server):
    plain_queue = "a table by hand, called inline"

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rowlock-sqlite-"))

    def start(self) -> None:
        """There is nothing to start."""

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}, WAL, synchronous full"

    def create_database(self) -> str:
        return f"{_SCHEME}{self._folder / secrets.token_hex(4)}.db"

    def drop_database(self, url: str) -> None:
        path = Path(url.removeprefix(_SCHEME))
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()

    async def plain(self, url: str) -> Plain:
        """In a file of its own: beside Rowlock's, the two would wait for each other's lock."""
        return PlainSqlite(url.removeprefix(_SCHEME) + "-plain.db")

    async def begin_snapshot(self, url: str) -> Callable[[], object]:
        sessions = []
        for path in (url.removeprefix(_SCHEME), url.removeprefix(_SCHEME) + "-plain.db"):
            session = sqlite3.connect(path, isolation_level=None)
            session.execute("begin")
            session.execute("select count(*) from sqlite_master").fetchall()
            sessions.append(session)

        def end() -> None:
            for session in sessions:
                session.close()

        return end

    def cpu_seconds(self) -> float:
        return 0.0

    def count_statements(self) -> AbstractContextManager[Callable[[], int] | None]:
        return nullcontext()
