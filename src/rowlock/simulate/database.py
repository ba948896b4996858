"""Where a run keeps its messages: a database of its own, which may be killed, or one that somebody named."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rowlock.localservers import LocalMariadb, LocalPostgres, LocalServer

SERVERS: dict[str, type[LocalServer]] = {
    "postgresql": LocalPostgres,
    "postgres": LocalPostgres,
    "mariadb": LocalMariadb,
    "mysql": LocalMariadb,
}
SQLITE = "sqlite"


class Database:
    """The database of a run."""

    def __init__(self, name: str, url: str, prefix: str, server: LocalServer | None = None):
        self.name = name
        self.url = url
        self.prefix = prefix
        """Of every name in it, where it may hold other things."""
        self._server = server

    @property
    def is_ours(self) -> bool:
        return not self.prefix

    @property
    def is_file(self) -> bool:
        """It lives in the broker processes: to kill it is to kill one of them in the middle of a transaction."""
        return self.url.startswith("sqlite:")

    @property
    def can_be_killed(self) -> bool:
        return self._server is not None or self.is_file

    async def kill(self) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.kill)

    async def start(self) -> None:
        assert self._server is not None
        await asyncio.to_thread(self._server.start)


@contextmanager
def database(store: str, directory: Path) -> Iterator[Database]:
    """The database behind the word or the URL; what was started for it is ended again."""
    if store in SERVERS:
        with SERVERS[store]() as server:
            yield Database(store, server.url, "", server)
    elif store == SQLITE:
        yield Database(SQLITE, f"sqlite:///{directory / 'rowlock.db'}", "")
    else:
        yield Database(store.partition(":")[0], store, f"simulate-{secrets.token_hex(3)}-")
