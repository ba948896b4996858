"""What waiting consumers cost while nothing comes: statements that the database is sent, and processor time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from rowlock.bench.engine.processes import workers
from rowlock.bench.ground import Ground
from rowlock.bench.measure import Aim, Finding
from rowlock.bench.processor import family_seconds
from rowlock.bench.worker import Wait
from rowlock.limits import WAIT_MAX_SECONDS

BEGINNING_SECONDS = 2.0
"""For all waits to have begun."""


AIMS = [Aim("idle_1000_statements", "<= 5", "statements/s"), Aim("idle_1000_cpu", "<= 2", "% of a core")]


async def findings(ground: Ground, queues: Sequence[str]) -> dict[str, Finding]:
    """By a broker process of its own, on queues that exist and are empty."""
    async with workers(ground.url, 1) as (worker,):
        await worker.do(Wait(list(queues), WAIT_MAX_SECONDS))
        await asyncio.sleep(BEGINNING_SECONDS)
        used, started = family_seconds(worker.pid), time.perf_counter()
        with ground.server.count_statements() as count:
            await asyncio.sleep(ground.scale.idle_seconds)
            statements = None if count is None else count()
        spent = time.perf_counter() - started
        used = family_seconds(worker.pid) - used
    scale = (
        f"{len(queues)} waiters on as many queues in one broker process, waits of {WAIT_MAX_SECONDS} s renewed all the "
        f"time, for {ground.scale.idle_seconds:g} s"
    )
    percent = 100 * used / spent
    return {
        "idle_1000_statements": _statements(statements, spent, scale),
        "idle_1000_cpu": Finding(value=percent, ours=percent, scale=f"{scale}; of the broker process"),
    }


def _statements(count: int | None, seconds: float, scale: str) -> Finding:
    if count is None:
        return Finding(value=None, scale=scale, reason="no server is between, to count them")
    return Finding(value=count / seconds, ours=count / seconds, scale=f"{scale}; counted by the server")
