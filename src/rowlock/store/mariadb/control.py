"""The catalog: named, versioned documents on a connection of their own, which is made anew when it is lost."""

from __future__ import annotations

import asyncio
import random
import secrets
from typing import TYPE_CHECKING, TypeVar

from rowlock.store.faults import Contended, Lost, Misuse
from rowlock.store.mariadb.connection import connect
from rowlock.store.mariadb.errors import DUPLICATE, FENCED, number_of
from rowlock.store.mariadb.literals import NUMBERS, in_steps, literal, wanted
from rowlock.store.mariadb.schema import PACKAGE
from rowlock.store.port import Durability, Entry
from rowlock.store.statements import load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from rowlock.store.mariadb.address import Address
    from rowlock.store.mariadb.connection import Answer, Connection

T = TypeVar("T")
Entries = list[Entry]

SECRET_BYTES = 32
PATIENCE_SECONDS = 5.0
RETRY_SECONDS = 0.05
ENTRY = (
    "CONVERT(e.kind USING utf8mb4), e.id, CONVERT(e.name USING utf8mb4), e.version, CONVERT(e.document USING utf8mb4), "
    "e.created_at, CONVERT(e.owner USING utf8mb4), e.parent"
)


class MariadbControl:
    """See `store.port.Control`. Calls wait for each other: the catalog is read rarely, and cached by version."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._sql = load(PACKAGE, "control.sql", entry=ENTRY, numbers=NUMBERS)
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def allocate(self, count: int) -> int:
        statements = [self._sql["allocate"] % {"count": count}, self._sql["allocated"]]
        _, (rows, _) = await self._run(*statements)
        return int(rows[0][0])

    async def find(self, kind: str, names: Sequence[str]) -> Entries:
        return await self._entries(
            self._sql["find"] % {"kind": literal(kind), "names": wanted(some)} for some in in_steps(names)
        )

    async def get(self, ids: Sequence[int]) -> Entries:
        return await self._entries(self._sql["get"] % {"numbers": wanted(some)} for some in in_steps(ids))

    async def children(self, kind: str, parents: Sequence[int]) -> Entries:
        return await self._entries(
            self._sql["children"] % {"kind": literal(kind), "numbers": wanted(some)} for some in in_steps(parents)
        )

    async def list(self, kind: str, prefix: str = "", after: str = "", limit: int = 1000) -> Entries:
        bounds = {"kind": literal(kind), "prefix": literal(prefix), "after": literal(after), "limit": limit}
        return await self._entries([self._sql["list"] % bounds])

    async def apply(
        self,
        inserts: Iterable[Entry] = (),
        replaces: Iterable[Entry] = (),
        removes: Iterable[Entry] = (),
    ) -> bool:
        stamp = secrets.randbits(63) or 1
        statements = self._changes(inserts, replaces, removes)
        return await self._patiently(lambda connection: self._apply(connection, stamp, statements))

    async def secret(self) -> bytes:
        new = secrets.token_bytes(SECRET_BYTES)
        _, (rows, _) = await self._run(self._sql["make_secret"] % {"secret": literal(new)}, self._sql["secret"])
        return bytes(rows[0][0])

    async def lease(self, duty: str, holder: int, milliseconds: int) -> bool:
        values = {"duty": literal(duty), "holder": holder, "milliseconds": milliseconds}
        _, taken = await self._run(self._sql["offer_lease"] % values, self._sql["take_lease"] % values)
        return taken.affected == 1

    async def clock(self) -> int:
        (answer,) = await self._run(self._sql["clock"])
        return int(answer.rows[0][0])

    async def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.drop()

    def _changes(self, inserts: Iterable[Entry], replaces: Iterable[Entry], removes: Iterable[Entry]) -> Sequence[str]:
        """In the order of ids, so that two changes rarely wait for each other crosswise."""
        statements = []
        for name, entries in (("remove", removes), ("replace", replaces), ("insert", inserts)):
            for entry in sorted(entries, key=lambda entry: entry.id):
                statements += [self._sql[name] % _literals(entry), self._sql["fence"]]
        return statements

    async def _apply(self, connection: Connection, stamp: int, statements: Sequence[str]) -> bool:
        try:
            await connection.begin(self._sql["apply"] % {"stamp": stamp})
        except Contended as fault:
            if number_of(fault) != DUPLICATE:
                raise
            return True  # sent once before, and committed
        try:
            await connection.commit(*statements)
        except Contended as fault:
            if number_of(fault) in (DUPLICATE, FENCED):
                return False
            raise
        return True

    async def _entries(self, statements: Iterable[str]) -> Entries:
        found = await self._run(*statements)
        return [Entry(*row) for answer in found for row in answer.rows]

    async def _run(self, *statements: str) -> Sequence[Answer]:
        return await self._patiently(lambda connection: connection.run(*statements))

    async def _patiently(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do it again after a lost race or connection, for some seconds. Everything done here may be done twice."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            try:
                async with self._turn:
                    return await work(await self._connected())
            except (Contended, Lost):
                if self._closed or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(random.uniform(RETRY_SECONDS / 2, RETRY_SECONDS))

    async def _connected(self) -> Connection:
        if self._closed:
            raise Misuse("the store was closed")
        if self._connection is None or not self._connection.alive:
            self._connection = await connect(self._address, Durability.RELAXED)
        return self._connection


def _literals(entry: Entry) -> dict[str, str]:
    return {name: literal(getattr(entry, name)) for name in Entry.__struct_fields__}
