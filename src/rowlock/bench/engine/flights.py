"""Settling very many messages in flight in random order, against in order."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from statistics import median

from rowlock.bench.engine.steps import bodies_of
from rowlock.bench.ground import Ground
from rowlock.bench.measure import Aim, Bench, Finding
from rowlock.bench.turns import ratio
from rowlock.embedded import Broker, ClaimedMessage

CALLERS = 64
BATCH = 1_000
BYTES = 100
HOLD_SECONDS = 3_600
SHARES = 6


async def run(ground: Ground) -> dict[str, Finding]:
    """Two queues with as many in flight; equal shares of both are settled in turns, until nothing is left."""
    count = ground.scale.in_flight_messages
    async with ground.broker("random", "ordered") as broker:
        held = {queue: await _fly(broker, queue, count) for queue in ("random", "ordered")}
        random.shuffle(held["random"])
        rates: dict[str, list[float]] = {queue: [] for queue in held}
        share = count // SHARES
        for at in range(0, count, share):
            for queue, messages in held.items():
                rates[queue].append(await _settle(messages[at : at + share]))
    scale = f"{count} in flight, {CALLERS} callers settle one each, {SHARES} shares in turns; baseline: in order"
    return {"settle_random_120000": ratio(median(rates["random"]), median(rates["ordered"]), scale)}


async def _fly(broker: Broker, queue: str, count: int) -> list[ClaimedMessage]:
    held: list[ClaimedMessage] = []
    bodies = bodies_of(BYTES, BATCH)
    while len(held) < count:
        await broker.publish(queue, bodies)
        held += await broker.claim(queue, BATCH, visibility_timeout=HOLD_SECONDS)
    return held


async def _settle(messages: Sequence[ClaimedMessage]) -> float:
    left = iter(messages)

    async def caller() -> None:
        for message in left:
            await message.settle()

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return len(messages) / (time.perf_counter() - started)


BENCH = Bench("120,000 in flight", [Aim("settle_random_120000", ">= 0.5", "x messages/s")], run)
