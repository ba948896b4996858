"""One database on MariaDB or MySQL: checks the server, creates and migrates the schema, opens connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowlock import limits
from rowlock.errors import InvalidArgument
from rowlock.store.faults import Misuse
from rowlock.store.mariadb.address import parse
from rowlock.store.mariadb.connection import connect
from rowlock.store.mariadb.control import MariadbControl
from rowlock.store.mariadb.lane import MariadbLane
from rowlock.store.mariadb.schema import migrate, prefix
from rowlock.store.port import Durability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowlock.store.port import Control, Lane


class MariadbStore:
    """See `store.port.Store`."""

    dialect = "mariadb"
    hints = False
    hint_poll_ms = 280

    def __init__(self, url: str) -> None:
        self._address = parse(url)
        self._control: MariadbControl | None = None
        self._closed = asyncio.Event()
        self.lanes = 0

    async def open(self, lanes: int | None = None) -> None:
        if lanes is not None and not 1 <= lanes <= limits.LANES_COUNT:
            raise InvalidArgument(f"a database has 1 to {limits.LANES_COUNT} lanes, not {lanes}")
        connection = await connect(self._address, Durability.RELAXED)
        try:
            self.lanes = await migrate(connection, lanes)
        finally:
            connection.drop()
        self._control = MariadbControl(self._address)

    @property
    def control(self) -> Control:
        if self._control is None:
            raise Misuse(f"{self._address} is not open")
        return self._control

    async def lane(self, number: int, durability: Durability) -> Lane:
        if number not in range(self.lanes):
            raise Misuse(f"there is no lane {number}: {self._address} has {self.lanes}")
        return MariadbLane(await connect(self._address, durability), prefix(number))

    async def hint(self, parts: Sequence[int]) -> None:
        """Nothing: MariaDB has no way to tell other processes; they poll."""

    async def listen(self, heard: Callable[[Sequence[int] | None], None]) -> None:
        """Nothing is ever heard, as above."""
        await self._closed.wait()

    async def close(self) -> None:
        self._closed.set()
        if self._control is not None:
            await self._control.close()
            self._control = None
