"""Where a benchmark runs: a database of its own on the server of this run, and how big it may be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from rowlock import embedded

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain
    from rowlock.bench.servers import Server


class Scale(Struct, frozen=True, kw_only=True):
    """How long and how much."""

    slice_seconds: float
    rounds: int
    backlog_messages: int
    in_flight_messages: int
    queues: int
    snapshot_seconds: float
    """For each side."""
    idle_seconds: float
    latency_messages: int


QUICK = Scale(
    slice_seconds=0.2,
    rounds=5,
    backlog_messages=50_000,
    in_flight_messages=20_000,
    queues=1_000,
    snapshot_seconds=4,
    idle_seconds=5,
    latency_messages=120,
)
FULL = Scale(
    slice_seconds=1,
    rounds=15,
    backlog_messages=1_000_000,
    in_flight_messages=120_000,
    queues=1_000,
    snapshot_seconds=60,
    idle_seconds=50,
    latency_messages=2_000,
)


class Ground(Struct, frozen=True):
    """What a benchmark gets."""

    server: Server
    url: str
    scale: Scale

    @asynccontextmanager
    async def broker(self, *queues: str, **settings: object) -> AsyncIterator[embedded.Broker]:
        """A broker on this database, with these queues."""
        async with embedded.open(self.url) as broker:
            for queue in queues:
                await broker.create_queue(queue, **settings)
            yield broker

    @asynccontextmanager
    async def plain(self, connections: int = 1) -> AsyncIterator[list[Plain]]:
        """Connections to the plain tables beside it, which are made anew."""
        opened: list[Plain] = []
        try:
            opened += [await self.server.plain(self.url) for _ in range(connections)]
            await opened[0].create()
            yield opened
        finally:
            for one in opened:
                await one.close()
