"""The catalog: named, versioned documents on a connection of their own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from rowlock.store.port import Entry
from rowlock.store.sqlite.connection import now
from rowlock.store.statements import load

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Sequence

    from rowlock.store.sqlite.connection import Connection, Row

SECRET_BYTES = 32


class SqliteControl:
    """See `store.port.Control`. Once begun, a transaction does not await, so that calls may share the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sql = load("rowlock.store.sqlite", "control.sql")

    async def allocate(self, count: int) -> int:
        async with self._connection.transaction():
            ((after,),) = self._connection.rows(self._sql["allocate"], (count,))
        return int(after) - count

    async def find(self, kind: str, names: Sequence[str]) -> list[Entry]:
        return await self._entries("find", {"kind": kind, "names": _json(names)})

    async def get(self, ids: Sequence[int]) -> list[Entry]:
        return await self._entries("get", (_json(ids),))

    async def children(self, kind: str, parents: Sequence[int]) -> list[Entry]:
        return await self._entries("children", {"kind": kind, "parents": _json(parents)})

    async def list(self, kind: str, prefix: str = "", after: str = "", limit: int = 1000) -> list[Entry]:
        return await self._entries("list", {"kind": kind, "prefix": prefix, "after": after, "limit": limit})

    async def apply(
        self,
        inserts: Iterable[Entry] = (),
        replaces: Iterable[Entry] = (),
        removes: Iterable[Entry] = (),
    ) -> bool:
        removed = [(e.id, e.version) for e in removes]
        replaced = [(e.name, e.version, e.document, e.owner, e.parent, e.id, e.version - 1) for e in replaces]
        inserted = [(e.id, e.kind, e.name, e.version, e.document, e.created_at, e.owner, e.parent) for e in inserts]
        try:
            async with self._connection.transaction():
                for name, rows in (("remove", removed), ("replace", replaced), ("insert", inserted)):
                    if rows and self._connection.many(self._sql[name], rows) != len(rows):
                        raise _Disagreed
        except _Disagreed:
            return False
        return True

    async def secret(self) -> bytes:
        found = await self._connection.read(self._sql["secret"])
        if not found:
            async with self._connection.transaction():
                self._connection.run(self._sql["make_secret"], (secrets.token_bytes(SECRET_BYTES),))
                found = self._connection.rows(self._sql["secret"])
        return bytes(found[0][0])

    async def lease(self, duty: str, holder: int, milliseconds: int) -> bool:
        async with self._connection.transaction():
            time = now()
            parameters = {"duty": duty, "holder": holder, "now": time, "until": time + milliseconds}
            return self._connection.run(self._sql["lease"], parameters) == 1

    async def clock(self) -> int:
        return now()

    async def close(self) -> None:
        self._connection.close()

    async def _entries(self, name: str, parameters: Any) -> builtins.list[Entry]:
        return [_entry(row) for row in await self._connection.read(self._sql[name], parameters)]


class _Disagreed(Exception):
    """An entry was not as the caller thought; ends the transaction without a change."""


def _json(values: Sequence[str] | Sequence[int]) -> str:
    return msgspec.json.encode(values).decode()


def _entry(row: Row) -> Entry:
    entry_id, kind, name, version, document, created_at, owner, parent = row
    return Entry(kind, entry_id, name, version, document, created_at, owner, parent)
