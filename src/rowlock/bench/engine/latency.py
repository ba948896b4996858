"""From publish to the answer of a claim that was waiting, against one row inserted and committed."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING

from rowlock.bench.engine.steps import bodies_of
from rowlock.bench.ground import Ground
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import ratio
from rowlock.limits import WAIT_MAX_SECONDS

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain
    from rowlock.embedded import Broker

SETTLING_SECONDS = 0.005
"""For the claim to be waiting before the publish begins."""
WARM_UP = 10


async def run(ground: Ground) -> dict[str, Finding]:
    findings = {}
    async with ground.broker(*SIZES) as broker, ground.plain() as (plain,):
        for name, size in SIZES.items():
            (body,) = bodies_of(size, 1)
            waited: list[float] = []
            inserted: list[float] = []
            for _ in range(ground.scale.latency_messages + WARM_UP):
                waited.append(await _to_waiting(broker, name, body))
                inserted.append(await _bare(plain, body))
            ours, baseline = (median(times[WARM_UP:]) * 1000 for times in (waited, inserted))
            count = ground.scale.latency_messages
            scale = f"p50 in ms of {count} messages of {size} B in turns; baseline: INSERT and COMMIT"
            findings[f"latency_p50_{name}"] = ratio(ours, baseline, scale)
    return findings


async def _to_waiting(broker: Broker, queue: str, body: bytes) -> float:
    claim = asyncio.ensure_future(broker.claim(queue, wait=WAIT_MAX_SECONDS))
    await asyncio.sleep(SETTLING_SECONDS)
    started = time.perf_counter()
    publishing = asyncio.ensure_future(broker.publish(queue, body))
    claimed = await claim
    taken = time.perf_counter() - started
    await publishing
    await broker.settle(claimed)
    return taken


async def _bare(plain: Plain, body: bytes) -> float:
    """After the same pause: a machine that has just been busy answers faster."""
    await asyncio.sleep(SETTLING_SECONDS)
    started = time.perf_counter()
    await plain.insert([body])
    return time.perf_counter() - started


BENCH = Bench("latency", per_size("latency_p50", "<= 2", "x ms"), run)
