"""Claiming and settling in a queue with a long backlog, against a queue that is empty but for what is claimed."""

from __future__ import annotations

import time

from rowlock.bench.engine.steps import bodies_of
from rowlock.bench.ground import Ground
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import Side, Slice, compare
from rowlock.embedded import Broker

BATCH = 100
LOAD = 5_000


async def run(ground: Ground) -> dict[str, Finding]:
    findings = {}
    backlog = ground.scale.backlog_messages
    for name, size in SIZES.items():
        async with ground.broker(f"long-{name}", f"short-{name}") as broker:
            bodies = bodies_of(size, LOAD)
            for _ in range(backlog // LOAD):
                await broker.publish(f"long-{name}", bodies)
            long = _claim_and_settle(broker, f"long-{name}", bodies[:BATCH])
            short = _claim_and_settle(broker, f"short-{name}", bodies[:BATCH])
            what = f"backlog of {backlog} x {size} B, claim + settle by {BATCH}, publishing not timed"
            findings[f"backlog_1m_{name}"] = await compare(ground, long, short, what, "no backlog")
    return findings


def _claim_and_settle(broker: Broker, queue: str, bodies: list[bytes]) -> Side:
    """As many as are claimed are published beforehand; only claim and settle are timed."""

    async def side(seconds: float) -> Slice:
        spent, carried = 0.0, 0
        while spent < seconds:
            await broker.publish(queue, bodies)
            started = time.perf_counter()
            claimed = await broker.claim(queue, len(bodies))
            await broker.settle(claimed)
            spent += time.perf_counter() - started
            carried += len(claimed)
        return Slice(carried, spent)

    return side


BENCH = Bench("backlog", per_size("backlog_1m", ">= 0.9", "x messages/s"), run)
