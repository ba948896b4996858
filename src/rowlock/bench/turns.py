"""Measuring in turns: short slices of both sides, so that whatever else loads the machine hits both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from rowlock.bench.measure import Finding

if TYPE_CHECKING:
    from rowlock.bench.ground import Ground

Step = Callable[[int], Awaitable[int]]
"""One unit of work of the caller of that number; returns how many messages it carried."""


class Slice(NamedTuple):
    """What one side did in one turn."""

    messages: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


Side = Callable[[float], Awaitable[Slice]]
"""Works for so many seconds, or a little longer."""


def loop(step: Step, callers: int = 1) -> Side:
    """A side of so many concurrent callers that repeat a step."""

    async def side(seconds: float) -> Slice:
        started = time.perf_counter()
        until = started + seconds

        async def caller(number: int) -> int:
            carried = 0
            while time.perf_counter() < until:
                carried += await step(number)
            return carried

        counts = await asyncio.gather(*(caller(number) for number in range(callers)))
        return Slice(sum(counts), time.perf_counter() - started)

    return side


class Tally:
    """All turns of one side."""

    def __init__(self, ground: Ground, side: Side):
        self._ground = ground
        self._side = side
        self._slices: list[Slice] = []
        self._client_seconds = 0.0
        self._server_seconds = 0.0

    async def turn(self, seconds: float) -> None:
        client, server = time.process_time(), self._ground.server.cpu_seconds()
        self._slices.append(await self._side(seconds))
        self._client_seconds += time.process_time() - client
        self._server_seconds += self._ground.server.cpu_seconds() - server

    @property
    def rate(self) -> float:
        return median(one.rate for one in self._slices)

    @property
    def cpu(self) -> str:
        """Processor time per message, which a busy machine hardly changes."""
        messages = max(1, sum(one.messages for one in self._slices))
        return f"{self._client_seconds / messages * 1e6:.1f} + {self._server_seconds / messages * 1e6:.1f} us"


async def compare(
    ground: Ground, ours: Side, baseline: Side, what: str, against: str, *, seconds: float | None = None
) -> Finding:
    """Our median rate by the baseline's. Every other round begins with the other side; the first one does not count."""
    seconds = seconds or ground.scale.slice_seconds
    await ours(seconds)
    await baseline(seconds)
    left, right = Tally(ground, ours), Tally(ground, baseline)
    for number in range(ground.scale.rounds):
        for tally in (left, right) if number % 2 else (right, left):
            await tally.turn(seconds)
    scale = (
        f"{what}; baseline: {against}; {ground.scale.rounds} rounds of {seconds:g} s for each side; "
        f"CPU per message, client + server: {left.cpu}, baseline {right.cpu}"
    )
    return ratio(left.rate, right.rate, scale)


def ratio(ours: float, baseline: float, scale: str) -> Finding:
    return Finding(value=ours / baseline, ours=ours, baseline=baseline, scale=scale)
