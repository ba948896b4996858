"""The broker processes of a run: started, stopped for a while, killed, and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from rowlock.simulate.host import END, FINISH, Progress, Spec

FINISH_SECONDS = 40.0
TAIL_CHARS = 1500


class BrokerProcess:
    """One place for a broker process: whoever is killed in it is followed by another."""

    def __init__(self, spec: Spec, trouble: Callable[[str], None]):
        self.spec = spec
        self.stopped = False
        self.kills = 0
        self._trouble = trouble
        self._process: asyncio.subprocess.Process | None = None
        self._finished = False
        self._watch: asyncio.Task[None] | None = None
        self._past = Progress()
        self._present = Progress()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def progress(self) -> Progress:
        """Of all its lives."""
        past, present = self._past, self._present
        return Progress(*(getattr(past, name) + getattr(present, name) for name in Progress.__struct_fields__))

    async def start(self) -> None:
        self.spec.life += 1
        self._past, self._present = self.progress, Progress()
        self.stopped = False
        with self._errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "rowlock.simulate.host", msgspec.json.encode(self.spec).decode()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                start_new_session=True,
            )
        self._watch = asyncio.get_running_loop().create_task(self._follow(self._process))

    def tell(self, order: str) -> None:
        if order == END:
            self.spec.ending = True
        if self._process is not None and self._process.stdin is not None and self.alive:
            self._process.stdin.write(order.encode() + b"\n")

    def kill(self) -> bool:
        """kill -9; another takes its place."""
        killed = self._signal(signal.SIGKILL)
        self.kills += killed
        return killed

    def stop(self) -> bool:
        self.stopped = self._signal(signal.SIGSTOP)
        return self.stopped

    def resume(self) -> None:
        if self.stopped and self._signal(signal.SIGCONT):
            self.stopped = False

    async def finish(self) -> None:
        """End in good order; one that does not is a trouble."""
        self._finished = True
        self.tell(FINISH)
        assert self._watch is not None
        done, _ = await asyncio.wait([self._watch], timeout=FINISH_SECONDS)
        if not done:
            self._trouble(f"Broker process {self.spec.number} did not end within {FINISH_SECONDS:.0f} s.")
        await self.close()

    async def close(self) -> None:
        """End it in any case."""
        self._finished = True
        self._signal(signal.SIGKILL)
        if self._watch is not None:
            await self._watch

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):
                self._present = msgspec.json.decode(line, type=Progress)
        code = await process.wait()
        if code == -signal.SIGKILL and not self._finished:
            await self.start()
        elif code not in (0, -signal.SIGKILL) or not self._finished:
            self._trouble(f"Broker process {self.spec.number} ended by itself with {code}: {self._tail()}")

    def _signal(self, number: signal.Signals) -> bool:
        if self._process is None or self._process.returncode is not None:
            return False
        try:
            self._process.send_signal(number)
        except ProcessLookupError:
            return False
        return True

    @property
    def _errors(self) -> Path:
        return Path(self.spec.directory) / f"broker-{self.spec.number}.stderr"

    def _tail(self) -> str:
        return self._errors.read_text("utf-8", "replace")[-TAIL_CHARS:].strip()
