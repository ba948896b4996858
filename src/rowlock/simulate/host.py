"""One broker process: the library opened on the database, with the producers and consumers that it carries.

    python -m rowlock.simulate.host SPEC

SPEC is JSON. Orders come by lines on the standard input; when that ends, the process ends, too. Progress goes out by
lines on the standard output.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import signal
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from rowlock import embedded
from rowlock.errors import RowlockError, Unavailable
from rowlock.simulate import records
from rowlock.simulate.consumer import Consumer
from rowlock.simulate.producer import Producer
from rowlock.simulate.streams import streams

PATIENCE_SECONDS = 30
PROGRESS_SECONDS = 0.2
OPEN_PAUSE_SECONDS = 0.1
PR_SET_PDEATHSIG = 1

PAUSE = "pause"
"""Orders: no publishing for now,"""
FLOW = "flow"
"""publish again,"""
END = "end"
"""publish no more, and break nothing; consumers go on,"""
FINISH = "finish"
"""end in good order,"""
DIE_COMMITTING = "die-committing"
"""die in the middle of the next transaction (where the database is a file in this very process)."""


class Spec(Struct):
    """What a broker process is told at its start."""

    number: int
    life: int
    """How often it was started, this time included."""
    url: str
    prefix: str
    directory: str
    producers: list[int]
    consumers: list[int]
    faults: list[str]
    seed: int
    prelude: str | None
    ending: bool


class Progress(Struct):
    """What its clients have done, for the table."""

    published: int = 0
    claimed: int = 0
    settled: int = 0
    died: int = 0
    stalled: int = 0


class Host:
    """What the clients of one process share."""

    def __init__(self, spec: Spec, broker: embedded.Broker):
        self.spec = spec
        self.broker = broker
        self.streams = streams(spec.prefix, spec.faults)
        self.recorder = records.Recorder(Path(spec.directory) / f"broker-{spec.number}.{spec.life}{records.SUFFIX}")
        self.progress = Progress()
        self.flowing = asyncio.Event()
        self.ending = asyncio.Event()
        self.finishing = asyncio.Event()
        self.flowing.set()
        if spec.ending:
            self.ending.set()

    def happened(self, what: str, text: str) -> None:
        self.recorder.write(records.Happened(records.now(), what, text))
        if what == records.DIED:
            self.progress.died += 1
        elif what == records.STALLED:
            self.progress.stalled += 1

    def report(self, error: RowlockError) -> None:
        """An error that no client of this simulation should see."""
        self.happened(records.TROUBLE, f"{type(error).__name__}: {error}")

    async def run(self) -> None:
        spec = self.spec
        clients: list[Producer | Consumer] = [
            *(Producer(self, f"producer-{number}.{spec.life}") for number in spec.producers),
            *(Consumer(self, f"consumer-{number}.{spec.life}") for number in spec.consumers),
        ]
        helpers = [asyncio.ensure_future(self._obey()), asyncio.ensure_future(self._tell())]
        await asyncio.gather(*(client.run() for client in clients))
        for helper in helpers:
            helper.cancel()
        self._tell_once()

    async def _obey(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            order = line.decode().strip()
            if order == PAUSE:
                self.flowing.clear()
            elif order == FLOW:
                self.flowing.set()
            elif order == END:
                self.ending.set()
                self.flowing.set()
            elif order == FINISH:
                self.finishing.set()
            elif order == DIE_COMMITTING:
                _die_committing()
        os.kill(os.getpid(), signal.SIGKILL)

    async def _tell(self) -> None:
        while True:
            self._tell_once()
            await asyncio.sleep(PROGRESS_SECONDS)

    def _tell_once(self) -> None:
        os.write(1, msgspec.json.encode(self.progress) + b"\n")


def _die_committing() -> None:
    """The next transaction of a SQLite file is written, and never committed."""
    from rowlock.store.sqlite.connection import Connection

    def die(self: Connection) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    Connection.commit = die  # type: ignore[method-assign]


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


async def main(spec: Spec) -> None:
    broker = await opened(spec.url)
    try:
        await Host(spec, broker).run()
    finally:
        await broker.close()


async def opened(url: str) -> embedded.Broker:
    """A broker, once the database can be reached: it may have been killed just now."""
    deadline = records.now() + PATIENCE_SECONDS
    while True:
        try:
            return await embedded.open(url, patience=PATIENCE_SECONDS, owner="simulation").open()
        except Unavailable:
            if records.now() > deadline:
                raise
        await asyncio.sleep(OPEN_PAUSE_SECONDS)


if __name__ == "__main__":
    _die_with_parent()
    given = msgspec.json.decode(sys.argv[1], type=Spec)
    if given.prelude is not None:
        importlib.import_module(given.prelude)
    asyncio.run(main(given))
