"""The catalog and the other control tables: the port's `Control` over one connection that mends itself."""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import astuple

from rowlock.errors import Closed
from rowlock.store import statements
from rowlock.store.faults import Contended, Lost
from rowlock.store.port import Durability, Entry
from rowlock.store.postgres.arguments import columns
from rowlock.store.postgres.connect import SYNCHRONOUS_COMMIT, bounded_holds, connect
from rowlock.store.postgres.guard import call
from rowlock.store.postgres.lane import PACKAGE, names_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from asyncpg import Connection

T = TypeVar("T")
Rows = list[Any]

PATIENCE_SECONDS = 5.0


class PostgresControl:
    """See `port.Control`. Calls take turns on one connection: the catalog is read seldom, and cached by its readers."""

    def __init__(self, url: str):
        self._url = url
        self._sql = statements.load(PACKAGE, "control.sql", **names_of(0))
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def allocate(self, count: int) -> int:
        first: int = (await self._fetch("allocate", count))[0][0]
        return first

    async def find(self, kind: str, names: Sequence[str]) -> list[Entry]:
        return _entries(await self._fetch("find", kind, names))

    async def get(self, ids: Sequence[int]) -> list[Entry]:
        return _entries(await self._fetch("get", ids))

    async def children(self, kind: str, parents: Sequence[int]) -> list[Entry]:
        return _entries(await self._fetch("children", kind, parents))

    async def list(self, kind: str, prefix: str = "", after: str = "", limit: int = 1000) -> list[Entry]:
        return _entries(await self._fetch("list", kind, prefix, after, limit))

    async def apply(
        self, inserts: Iterable[Entry] = (), replaces: Iterable[Entry] = (), removes: Iterable[Entry] = ()
    ) -> bool:
        return await self._patiently(_Change(self._sql, [*inserts], [*replaces], [*removes]).apply)

    async def secret(self) -> bytes:
        await self._fetch("make_secret", secrets.token_bytes(32))
        secret: bytes = (await self._fetch("secret"))[0][0]
        return secret

    async def lease(self, duty: str, holder: int, milliseconds: int) -> bool:
        return bool(await self._fetch("lease", duty, holder, milliseconds))

    async def clock(self) -> int:
        clock: int = (await self._fetch("clock"))[0][0]
        return clock

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.terminate()

    async def _fetch(self, name: str, *values: Any) -> Rows:
        async def fetch(connection: Connection) -> Rows:
            rows: Rows = await call(connection, connection.fetch(self._sql[name], *values), seconds=PATIENCE_SECONDS)
            return rows

        return await self._patiently(fetch)

    async def _patiently(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do it again, on a new connection where the old one is lost, until it works or the patience is over.

        Everything but `apply` may simply be done twice; that finds out what became of its first time.
        """
        until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        async with self._turn:
            while True:
                try:
                    return await work(await self._connected())
                except (Lost, Contended):
                    if asyncio.get_running_loop().time() > until:
                        raise
                await asyncio.sleep(random.uniform(0.05, 0.25))

    async def _connected(self) -> Connection:
        if self._closed:
            raise Closed("the store was closed")
        if self._connection is None or self._connection.is_closed():
            settings = {"synchronous_commit": SYNCHRONOUS_COMMIT[Durability.LOCAL], **bounded_holds()}
            self._connection = await connect(self._url, settings)
        return self._connection


class _Change:
    """One `apply`, which knows whether an earlier try may have been committed."""

    def __init__(self, sql: dict[str, str], inserts: list[Entry], replaces: list[Entry], removes: list[Entry]):
        self._sql = sql
        self._written = [*inserts, *replaces]
        self._removed = [entry.id for entry in removes]
        self._values = (
            *columns(map(astuple, inserts), 8),
            *columns(map(astuple, replaces), 8),
            *columns(((entry.id, entry.version) for entry in removes), 2),
        )
        self._unsure = False

    async def apply(self, connection: Connection) -> bool:
        applying = connection.fetchval(self._sql["apply"], *self._values)
        try:
            applied: bool = await call(connection, applying, committing=True, seconds=PATIENCE_SECONDS)
        except Lost:
            self._unsure = True
            raise
        return applied or (self._unsure and await self._is_there(connection))

    async def _is_there(self, connection: Connection) -> bool:
        ids = [*(entry.id for entry in self._written), *self._removed]
        found = _entries(await call(connection, connection.fetch(self._sql["get"], ids), seconds=PATIENCE_SECONDS))
        return {entry.id: entry for entry in found} == {entry.id: entry for entry in self._written}


def _entries(rows: Iterable[Any]) -> list[Entry]:
    return [Entry(*row) for row in rows]
