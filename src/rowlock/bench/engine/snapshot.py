"""Throughput while another session holds a snapshot open, so that no dead row may be cleared away."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from statistics import median
from typing import TYPE_CHECKING

from rowlock.bench.engine import steps
from rowlock.bench.measure import SIZES, Aim, Bench, Finding, per_size
from rowlock.bench.turns import Step

if TYPE_CHECKING:
    from rowlock.bench.ground import Ground

BATCH = 10
HELD = 1_000
HOLD_SECONDS = 3_600
TURN_SECONDS = 0.25


async def run_cycle(ground: Ground) -> Mapping[str, Finding]:
    findings = {}
    for name, size in SIZES.items():
        bodies = steps.bodies_of(size, BATCH)
        async with ground.broker(f"held-{name}") as broker, ground.plain() as connections:
            sides = {"ours": steps.ours(broker, f"held-{name}", bodies), "plain": steps.plain(connections, bodies)}
            findings[f"snapshot_cycle_{name}"] = await _under_snapshot(ground, sides, f"batches of {BATCH} x {size} B")
    return findings


async def run_extends(ground: Ground) -> Mapping[str, Finding]:
    async with _ours_extending(ground) as ours, _plain_extending(ground) as plain:
        what = f"extends of {BATCH} of {HELD} held"
        return {"snapshot_extends": await _under_snapshot(ground, {"ours": ours, "plain": plain}, what)}


async def _under_snapshot(ground: Ground, sides: Mapping[str, Step], what: str) -> Finding:
    seconds = ground.scale.snapshot_seconds
    for step in sides.values():
        await _turn(step, TURN_SECONDS * 2)
    turns = math.ceil(seconds / TURN_SECONDS / 3) * 3
    rates: dict[str, list[float]] = {name: [] for name in sides}
    async with ground.server.snapshot(ground.url):
        for _ in range(turns):
            for name, step in sides.items():
                rates[name].append(await _turn(step, TURN_SECONDS))
    thirds = {name: (median(found[: turns // 3]), median(found[-turns // 3 :])) for name, found in rates.items()}
    decay = {name: last / first for name, (first, last) in thirds.items()}
    first, last = thirds["ours"]
    scale = (
        f"{what}, {seconds:g} s of each side in turns, snapshot held throughout; ours: "
        f"{first:.0f} then {last:.0f} messages/s; baseline: the same ratio of the plain queue"
    )
    return Finding(value=decay["ours"], ours=decay["ours"], baseline=decay["plain"], scale=scale)


async def _turn(step: Step, seconds: float) -> float:
    started = time.perf_counter()
    carried = 0
    while (spent := time.perf_counter() - started) < seconds:
        carried += await step(0)
    return carried / spent


@asynccontextmanager
async def _ours_extending(ground: Ground) -> AsyncIterator[Step]:
    async with ground.broker("extended") as broker:
        await broker.publish("extended", steps.bodies_of(100, HELD))
        held = await broker.claim("extended", HELD, visibility_timeout=HOLD_SECONDS)
        at = 0

        async def step(_: int) -> int:
            nonlocal at
            at = (at + BATCH) % HELD
            await broker.extend(held[at : at + BATCH], HOLD_SECONDS)
            return BATCH

        yield step


@asynccontextmanager
async def _plain_extending(ground: Ground) -> AsyncIterator[Step]:
    async with ground.plain() as (connection,):
        await connection.put(steps.bodies_of(100, HELD))
        held = sorted(await connection.take(HELD))
        at = 0

        async def step(_: int) -> int:
            nonlocal at
            at = (at + BATCH) % HELD
            await connection.extend(held[at : at + BATCH])
            return BATCH

        yield step


BENCHES = [
    Bench("a snapshot held", per_size("snapshot_cycle", ">= 0.9", "last third / first third"), run_cycle),
    Bench("a snapshot held, extends", [Aim("snapshot_extends", ">= 0.9", "last third / first third")], run_extends),
]
