"""Publish, claim and settle against a plain queue: large batches, many callers, one caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowlock.bench.engine import steps
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import compare, loop

if TYPE_CHECKING:
    from rowlock.bench.ground import Ground

MOST_CONNECTIONS = 64
LONGER = 2.5
"""Slices where callers wait for a connection: each should have several turns."""


def bench(name: str, target: str, *, callers: int, batch: int) -> Bench:
    async def run(ground: Ground) -> Mapping[str, Finding]:
        findings = {}
        async with ground.broker(*SIZES) as broker, ground.plain(min(callers, MOST_CONNECTIONS)) as connections:
            for size_name, size in SIZES.items():
                bodies = steps.bodies_of(size, batch)
                plain = steps.plain if callers <= MOST_CONNECTIONS else steps.plain_shared
                ours = loop(steps.ours(broker, size_name, bodies), callers)
                baseline = loop(plain(connections, bodies), callers)
                await connections[0].create()
                await baseline(ground.scale.slice_seconds)
                await connections[0].tidy()
                findings[f"{name}_{size_name}"] = await compare(
                    ground,
                    ours,
                    baseline,
                    f"{callers} callers, {batch} x {size} B a call",
                    f"{ground.server.plain_queue}, {len(connections)} connections",
                    seconds=ground.scale.slice_seconds * (1 if callers <= MOST_CONNECTIONS else LONGER),
                )
        return findings

    return Bench(name, per_size(name, target, "x messages/s"), run)


BENCHES = [
    bench("batches_100", ">= 2", callers=1, batch=100),
    bench("batches_1000", ">= 3", callers=1, batch=1_000),
    bench("callers_64", ">= 4", callers=64, batch=1),
    bench("callers_256", ">= 8", callers=256, batch=1),
    bench("callers_1", ">= 0.9", callers=1, batch=1),
]
