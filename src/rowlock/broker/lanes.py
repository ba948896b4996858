"""Connections to look around with, outside any cycle: one per lane, one user at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rowlock.errors import RowlockError
from rowlock.store.faults import StoreFault
from rowlock.store.port import Durability, Lane, Store


class Lanes:
    """Made when first used, and made anew after trouble."""

    def __init__(self, store: Store):
        self._store = store
        self._lanes: dict[int, Lane] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    @asynccontextmanager
    async def use(self, number: int) -> AsyncIterator[Lane]:
        async with self._locks.setdefault(number, asyncio.Lock()):
            lane = self._lanes.get(number)
            if lane is None:
                lane = self._lanes[number] = await self._store.lane(number, Durability.LOCAL)
            try:
                yield lane
            except BaseException as fault:
                if isinstance(fault, StoreFault) or not isinstance(fault, RowlockError):
                    del self._lanes[number]
                    await lane.close()
                raise

    async def close(self) -> None:
        for lane in self._lanes.values():
            await lane.close()
        self._lanes.clear()
