"""One PostgreSQL database: the port's `Store`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg

from rowlock.errors import InvalidArgument
from rowlock.store.faults import Misuse, StoreFault
from rowlock.store.port import Durability
from rowlock.store.postgres import hints
from rowlock.store.postgres.connect import KEYED_PLANS, SYNCHRONOUS_COMMIT, bounded_holds, check_server, connect
from rowlock.store.postgres.control import PostgresControl
from rowlock.store.postgres.lane import PostgresLane
from rowlock.store.postgres.schema import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REFUSALS = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError, ValueError)
"""Of the address as it was given: waiting does not help."""


class PostgresStore:
    """See `port.Store`. The URL may name several hosts; the one that accepts writes is used."""

    dialect = "postgresql"
    hints = True
    hint_poll_ms = 1000

    def __init__(self, url: str):
        self.lanes = 0
        self._url = url
        self._control = PostgresControl(url)
        self._hinter = hints.Hinter(url)
        self._listeners: set[asyncio.Task[None]] = set()

    async def open(self, lanes: int | None = None) -> None:
        try:
            connection = await connect(self._url, {"synchronous_commit": "local"})
        except StoreFault as fault:
            if isinstance(fault.__cause__, REFUSALS):
                raise InvalidArgument(f"PostgreSQL refused the address: {fault.__cause__}") from fault
            raise
        try:
            await check_server(connection, Durability.RELAXED)
            self.lanes = await migrate(connection, lanes or 1)
        finally:
            connection.terminate()

    @property
    def control(self) -> PostgresControl:
        return self._control

    async def lane(self, number: int, durability: Durability) -> PostgresLane:
        if not 0 <= number < self.lanes:
            raise Misuse(f"there is no lane {number}: the schema has {self.lanes}")
        settings = {"synchronous_commit": SYNCHRONOUS_COMMIT[durability], **KEYED_PLANS, **bounded_holds()}
        connection = await connect(self._url, settings)
        try:
            await check_server(connection, durability)
            lane = PostgresLane(connection, number)
            await lane.prepare()
        except BaseException:
            connection.terminate()
            raise
        return lane

    async def hint(self, parts: Sequence[int]) -> None:
        await self._hinter.hint(parts)

    async def listen(self, heard: Callable[[Sequence[int] | None], None]) -> None:
        listener = asyncio.ensure_future(hints.listen(self._url, heard))
        self._listeners.add(listener)
        try:
            await asyncio.wait({listener})
        finally:
            self._listeners.discard(listener)
            listener.cancel()
        if not listener.cancelled():
            listener.result()

    async def close(self) -> None:
        for listener in self._listeners:
            listener.cancel()
        self._hinter.close()
        await self._control.close()
