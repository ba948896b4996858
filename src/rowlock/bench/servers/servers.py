"""The database server that a run measures: Rowlock and the plain side both on it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

import asyncpg
import psutil

from rowlock.bench.plain.postgres import PlainPostgres
from rowlock.localservers import LocalPostgres

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain

_LOGGED = re.compile(r"LOG:  (?:statement|execute [^:]*): ")


class Server(Protocol):
    """A server of this run's own."""

    name: str
    plain_queue: str
    """What the plain queue is, in words."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    def version(self) -> str: ...

    def create_database(self) -> str:
        """An empty database; returns its URL."""

    def drop_database(self, url: str) -> None: ...

    async def plain(self, url: str) -> Plain:
        """A connection for the plain side."""

    def snapshot(self, url: str) -> AbstractAsyncContextManager[None]:
        """Another session that holds a snapshot open."""

    def count_statements(self, url: str) -> AbstractContextManager[Callable[[], int]]:
        """Counts the statements that the server is sent, meanwhile."""

    def cpu_seconds(self) -> float:
        """What the server has used so far, all its processes."""


class PostgresServer:
    """PostgreSQL from the wheel, with its default settings: fsync and synchronous_commit are on."""

    name = "postgresql"
    plain_queue = "SELECT ... FOR UPDATE SKIP LOCKED, prepared, a connection for each caller"

    def __init__(self) -> None:
        self._server = LocalPostgres()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()

    def version(self) -> str:
        settings = self._server.sql(
            "select 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync') || "
            "', synchronous_commit ' || current_setting('synchronous_commit')"
        )
        return settings.strip()

    def create_database(self) -> str:
        return self._server.create_database()

    def drop_database(self, url: str) -> None:
        self._server.drop_database(url)

    async def plain(self, url: str) -> Plain:
        return await PlainPostgres.connect(url)

    @asynccontextmanager
    async def snapshot(self, url: str) -> AsyncIterator[None]:
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction(isolation="repeatable_read"):
                await connection.fetchval("select count(*) from pg_class")
                yield
        finally:
            await connection.close()

    @contextmanager
    def count_statements(self, url: str) -> Iterator[Callable[[], int]]:
        """By the server's own log, so that every statement that anybody sends counts."""
        self._log_statements("all")
        start = self._server.log.stat().st_size

        def count() -> int:
            with self._server.log.open("rb") as log:
                log.seek(start)
                return len(_LOGGED.findall(log.read().decode("utf-8", "replace")))

        try:
            yield count
        finally:
            self._log_statements("none")

    def _log_statements(self, which: str) -> None:
        self._server.sql(f"alter system set log_statement = '{which}'")
        self._server.sql("select pg_reload_conf()")

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._server.pid)


def cpu_seconds(pid: int | None) -> float:
    """Of a process and its children, those that have ended included."""
    server = psutil.Process(pid)
    times = server.cpu_times()
    total = times.user + times.system + times.children_user + times.children_system
    for child in server.children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += used.user + used.system
    return total


SERVERS: dict[str, type[PostgresServer]] = {"postgresql": PostgresServer}
