"""Two broker processes against one, on one queue and on a queue each."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from statistics import median
from typing import NamedTuple

import msgspec

from rowlock.bench.ground import Ground
from rowlock.bench.measure import SIZES, Bench, Finding, per_size
from rowlock.bench.turns import ratio
from rowlock.bench.worker import Done, Load, Wait

CALLERS = 64
START_SECONDS = 0.05


class Worker:
    """A broker process."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.pid = process.pid
        self._process = process

    async def do(self, order: Load | Wait) -> Done:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        return await self.answer()

    async def answer(self) -> Done:
        assert self._process.stdout is not None
        return msgspec.json.decode(await self._process.stdout.readline(), type=Done)

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@asynccontextmanager
async def workers(url: str, count: int) -> AsyncIterator[list[Worker]]:
    """So many broker processes on that database, ready to be told what to do."""
    started: list[Worker] = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "rowlock.bench.worker",
                url,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            started.append(Worker(process))
        for worker in started:
            await worker.answer()
        yield started
    finally:
        for worker in started:
            await worker.end()


class Turn(NamedTuple):
    """What a slice gave: messages per second over all brokers, and processor time per message in microseconds."""

    rate: float
    broker_us: float
    server_us: float

    @property
    def cpu(self) -> str:
        return f"{self.broker_us:.1f} + {self.server_us:.1f} us"


async def _slice(ground: Ground, brokers: Sequence[Worker], queues: Sequence[str], size: int) -> Turn:
    """Each of the brokers works on one of the queues, all together with as many callers."""
    seconds, start = ground.scale.slice_seconds, time.monotonic() + START_SECONDS
    used = ground.server.cpu_seconds()
    done = await asyncio.gather(
        *(
            worker.do(Load(queue, CALLERS // len(brokers), size, start, seconds))
            for worker, queue in zip(brokers, queues, strict=True)
        )
    )
    used = ground.server.cpu_seconds() - used
    rate = sum(one.rate for one in done)
    carried = max(1.0, rate * seconds)
    return Turn(rate, sum(one.cpu_seconds for one in done) / carried * 1e6, used / carried * 1e6)


async def run(ground: Ground) -> dict[str, Finding]:
    findings = {}
    async with ground.broker("left", "right"):
        pass
    async with workers(ground.url, 2) as both:
        cases = {
            "one": (both[:1], ["left"]),
            "sharing": (both, ["left", "left"]),
            "disjoint": (both, ["left", "right"]),
        }
        for name, size in SIZES.items():
            turns: dict[str, list[Turn]] = {case: [] for case in cases}
            for number in range(ground.scale.rounds + 1):
                for case, (brokers, queues) in cases.items():
                    turn = await _slice(ground, brokers, queues, size)
                    if number:
                        turns[case].append(turn)
            one = _median(turns["one"])
            for case in ("sharing", "disjoint"):
                two = _median(turns[case])
                scale = (
                    f"{CALLERS} callers in all, 1 x {size} B a call; baseline: one process; {ground.scale.rounds} "
                    f"rounds of {ground.scale.slice_seconds:g} s; CPU per message, brokers + database: {two.cpu}, "
                    f"baseline {one.cpu}"
                )
                findings[f"two_brokers_{case}_{name}"] = ratio(two.rate, one.rate, scale)
    return findings


def _median(turns: Sequence[Turn]) -> Turn:
    return Turn(*(median(column) for column in zip(*turns, strict=True)))


BENCH = Bench(
    "two brokers",
    [
        *per_size("two_brokers_sharing", ">= 0.7", "x messages/s"),
        *per_size("two_brokers_disjoint", ">= 0.9", "x messages/s"),
    ],
    run,
)
