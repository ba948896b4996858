"""A broker process of its own: it does what the lines on its standard input say, and answers each with a line.

A line is a JSON object with "do" (load or wait) and its arguments; see `Load` and `Wait`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time

import msgspec
from msgspec import Struct

from rowlock import embedded
from rowlock.bench.engine import steps
from rowlock.bench.eventloop import run_on_loop
from rowlock.bench.turns import loop


class Load(Struct, tag="load", tag_field="do"):
    """Publish, claim and settle single messages by so many callers, from a time of the machine's monotonic clock on."""

    queue: str
    callers: int
    size: int
    start: float
    seconds: float


class Wait(Struct, tag="wait", tag_field="do"):
    """One waiting consumer on each of these queues, renewed whenever its wait is over; until the process ends."""

    queues: list[str]
    seconds: float


class Done(Struct):
    """Messages per second, and the processor time that this process used meanwhile."""

    rate: float
    cpu_seconds: float


async def main(url: str) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with embedded.open(url) as broker:
        _answer(Done(0, 0))
        waiting: list[asyncio.Task[None]] = []
        while line := await lines.readline():
            order = msgspec.json.decode(line, type=Load | Wait)
            if isinstance(order, Load):
                _answer(await _load(broker, order))
            else:
                waiting += [asyncio.create_task(_wait(broker, queue, order.seconds)) for queue in order.queues]
                _answer(Done(0, 0))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _answer(done: Done) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
    sys.stdout.flush()


async def _load(broker: embedded.Broker, order: Load) -> Done:
    side = loop(steps.ours(broker, order.queue, steps.bodies_of(order.size, 1)), order.callers)
    await asyncio.sleep(order.start - time.monotonic())
    used = time.process_time()
    done = await side(order.seconds)
    return Done(done.rate, time.process_time() - used)


async def _wait(broker: embedded.Broker, queue: str, seconds: float) -> None:
    """Waits end at times spread evenly, as those of consumers that came one by one do."""
    await broker.claim(queue, wait=random.uniform(0, seconds))
    while True:
        await broker.claim(queue, wait=seconds)


if __name__ == "__main__":
    run_on_loop(main(sys.argv[1]))
