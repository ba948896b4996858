"""MariaDB from the system's programs, with its default settings: every commit is flushed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import asyncmy

from rowlock.bench.plain.mariadb import PlainMariadb
from rowlock.bench.processor import family_seconds
from rowlock.bench.servers.port import Server
from rowlock.localservers import LocalMariadb
from rowlock.store.mariadb.address import parse

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain

_connect: Any = asyncmy.connect  # the driver's functions have no types


class MariadbServer(Server):
    plain_queue = "SKIP LOCKED in a transaction of two statements"

    def __init__(self) -> None:
        self._server = LocalMariadb()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()

    def version(self) -> str:
        version, flush = self._server.sql("select version(), @@innodb_flush_log_at_trx_commit").split()
        return f"MariaDB {version}, innodb_flush_log_at_trx_commit {flush}"

    def create_database(self) -> str:
        return self._server.create_database()

    def drop_database(self, url: str) -> None:
        self._server.drop_database(url)

    async def plain(self, url: str) -> Plain:
        return await PlainMariadb.connect(url)

    async def begin_snapshot(self, url: str) -> Callable[[], object]:
        address = parse(url)
        driver = await _connect(user=address.user, database=address.database, unix_socket=address.unix_socket)
        await driver.query(b"start transaction with consistent snapshot")
        close: Callable[[], object] = driver.close
        return close

    def cpu_seconds(self) -> float:
        return family_seconds(self._server.pid)

    @contextmanager
    def count_statements(self) -> Iterator[Callable[[], int]]:
        """By the server's counter of statements; asking for it is one itself."""
        start = self._questions()
        yield lambda: self._questions() - start - 1

    def _questions(self) -> int:
        return int(self._server.sql("show global status like 'Questions'").split()[1])
