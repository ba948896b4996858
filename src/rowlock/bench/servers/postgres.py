"""PostgreSQL from the wheel, with its default settings: fsync and synchronous_commit are on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg

from rowlock.bench.plain.postgres import PlainPostgres
from rowlock.bench.processor import family_seconds
from rowlock.bench.servers.port import Server
from rowlock.localservers import LocalPostgres

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain

_LOGGED = re.compile(rb"LOG:  (?:statement|execute [^:]*): ")


class PostgresServer(Server):
    plain_queue = "SKIP LOCKED, prepared statements"

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

    async def begin_snapshot(self, url: str) -> Callable[[], object]:
        connection = await asyncpg.connect(url)
        await connection.execute("begin isolation level repeatable read")
        await connection.execute("select count(*) from pg_class")
        terminate: Callable[[], object] = connection.terminate
        return terminate

    def cpu_seconds(self) -> float:
        return family_seconds(self._server.pid)

    @contextmanager
    def count_statements(self) -> Iterator[Callable[[], int]]:
        """By the server's own log."""
        self._log_statements("all")
        start = self._server.log.stat().st_size

        def count() -> int:
            with self._server.log.open("rb") as log:
                log.seek(start)
                return len(_LOGGED.findall(log.read()))

        try:
            yield count
        finally:
            self._log_statements("none")

    def _log_statements(self, which: str) -> None:
        self._server.sql(f"alter system set log_statement = '{which}'")
        self._server.sql("select pg_reload_conf()")
