"""Publishing in large batches, against the same rows inserted by hand."""

from __future__ import annotations

from rowlock.bench.engine.steps import bodies_of
from rowlock.bench.ground import Ground
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import compare, loop

BATCH = 1_000


async def run(ground: Ground) -> dict[str, Finding]:
    findings = {}
    async with ground.broker(*SIZES) as broker, ground.plain() as (plain,):
        for name, size in SIZES.items():
            bodies = bodies_of(size, BATCH)

            async def publish(_: int, queue: str = name, bodies: list[bytes] = bodies) -> int:
                return len(await broker.publish(queue, bodies))

            async def insert(_: int, bodies: list[bytes] = bodies) -> int:
                await plain.insert(bodies)
                return len(bodies)

            what, against = f"batches of {BATCH} x {size} B", "the same rows in one INSERT for each batch"
            findings[f"publish_1000_{name}"] = await compare(ground, loop(publish), loop(insert), what, against)
    return findings


BENCH = Bench("publish", per_size("publish_1000", ">= 0.7", "x messages/s"), run)
