"""Measuring in turns: short slices of both sides, one after the other, so that whatever else loads the machine hits both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from statistics import median

from rowlock.bench.measure import Finding

Step = Callable[[int], Awaitable[int]]
"""One unit of work of the caller of that number; returns how many messages it carried."""

Side = Callable[[float], Awaitable[float]]
"""Works for so many seconds; returns messages per second."""


def loop(step: Step, callers: int = 1) -> Side:
    """A side of so many concurrent callers that repeat a step."""

    async def side(seconds: float) -> float:
        started = time.perf_counter()
        until = started + seconds

        async def caller(number: int) -> int:
            carried = 0
            while time.perf_counter() < until:
                carried += await step(number)
            return carried

        counts = await asyncio.gather(*(caller(number) for number in range(callers)))
        return sum(counts) / (time.perf_counter() - started)

    return side


async def take_turns(sides: Mapping[str, Side], seconds: float, rounds: int) -> dict[str, float]:
    """The median rate of each side over the rounds; every other round in reverse order, after a round that does not count."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        order = list(sides) if number % 2 else list(reversed(sides))
        for name in order:
            rate = await sides[name](seconds)
            if number:
                rates[name].append(rate)
    return {name: median(found) for name, found in rates.items()}


def ratio(ours: float, baseline: float, scale: str) -> Finding:
    return Finding(value=ours / baseline, ours=ours, baseline=baseline, scale=scale)
