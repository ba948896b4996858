"""The work that both sides repeat: every message is published, claimed and settled by calls of its own."""

from __future__ import annotations

import os
from asyncio import Queue
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowlock.bench.turns import Step

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain
    from rowlock.embedded import Broker


def bodies_of(size: int, batch: int) -> list[bytes]:
    return [os.urandom(size) for _ in range(batch)]


def ours(broker: Broker, queue: str, bodies: Sequence[bytes]) -> Step:
    """A caller of the library: publish, claim, settle."""
    batch = len(bodies)

    async def step(_: int) -> int:
        await broker.publish(queue, bodies)
        claimed = await broker.claim(queue, batch)
        await broker.settle(claimed)
        return len(claimed)

    return step


def plain(connections: Sequence[Plain], bodies: Sequence[bytes]) -> Step:
    """A caller with a connection of its own."""
    batch = len(bodies)

    async def step(number: int) -> int:
        connection = connections[number]
        await connection.put(bodies)
        taken = await connection.take(batch)
        await connection.delete(taken)
        return len(taken)

    return step


def plain_shared(connections: Sequence[Plain], bodies: Sequence[bytes]) -> Step:
    """More callers than connections: each takes a free one for the time of its three statements."""
    free: Queue[int] = Queue()
    for number in range(len(connections)):
        free.put_nowait(number)
    step = plain(connections, bodies)

    async def shared(_: int) -> int:
        number = await free.get()
        try:
            return await step(number)
        finally:
            free.put_nowait(number)

    return shared
