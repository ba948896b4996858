"""The same work spread evenly over many queues, against one queue."""

from __future__ import annotations

import asyncio
from itertools import count

from rowlock.bench.engine import idle, steps
from rowlock.bench.ground import Ground
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import Step, compare, loop
from rowlock.embedded import Broker

CALLERS = 64
CREATORS = 16


async def run(ground: Ground) -> dict[str, Finding]:
    """Making the queues takes a while: what idle waiters on them cost is measured here, too."""
    findings = {}
    queues = [f"q{number}" for number in range(ground.scale.queues)]
    async with ground.broker("one") as broker:
        await _create(broker, queues)
        for name, size in SIZES.items():
            body = steps.bodies_of(size, 1)
            each = [steps.ours(broker, queue, body) for queue in queues]
            for at in range(0, len(each), CALLERS):  # the first use of a queue loads it, which is not the question
                await asyncio.gather(*(step(0) for step in each[at : at + CALLERS]))
            many = loop(_rotating(each), CALLERS)
            one = loop(steps.ours(broker, "one", body), CALLERS)
            what = f"{len(queues)} queues in turn, {CALLERS} callers, 1 x {size} B a call"
            findings[f"queues_1000_{name}"] = await compare(ground, many, one, what, "one queue")
    return findings | await idle.findings(ground, queues)


async def _create(broker: Broker, names: list[str]) -> None:
    """Some at a time."""
    left = iter(names)

    async def create() -> None:
        for name in left:
            await broker.create_queue(name)

    await asyncio.gather(*(create() for _ in range(CREATORS)))


def _rotating(queue_steps: list[Step]) -> Step:
    turn = count()

    async def step(number: int) -> int:
        return await queue_steps[next(turn) % len(queue_steps)](number)

    return step


BENCH = Bench("1,000 queues", [*per_size("queues_1000", ">= 0.6", "x messages/s"), *idle.AIMS], run)
