"""A broker's process stands still between its locks and its commit: others go on soon, and so does it when it can."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

import rowlock
from rowlock import limits
from rowlock.errors import Unavailable

from .load import DEADLINE_SECONDS, log_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).with_name("stalling.py")
pytestmark = pytest.mark.slow

SLACK_SECONDS = 3.0


class Stalled:
    """The process of `stalling.py`, standing still with its locks held."""

    def __init__(self, url: str, verb: str):
        self._process = subprocess.Popen([sys.executable, PROGRAM, url, verb], stdout=subprocess.PIPE)

    async def until_stopped(self) -> None:
        process = psutil.Process(self._process.pid)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while process.status() != psutil.STATUS_STOPPED:
                assert self._process.poll() is None
                await asyncio.sleep(0.01)

    async def go_on(self) -> list[str]:
        self._process.send_signal(signal.SIGCONT)
        output, _ = await asyncio.to_thread(self._process.communicate, timeout=DEADLINE_SECONDS)
        found: list[str] = json.loads(output)
        return found

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Stalled]]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    started: list[Stalled] = []

    class Started(Stalled):
        def __init__(self, url: str, verb: str):
            super().__init__(url, verb)
            started.append(self)

    yield Started
    for one in started:
        one.end()


@pytest.mark.parametrize("store", ["postgres", "mariadb"])
async def test_others_go_on_while_a_publisher_stands_still(
    request: pytest.FixtureRequest, store: str, start: type[Stalled]
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    async with rowlock.open(url, owner="tester") as broker:
        await broker.create_queue("q")
        stalled = start(url, "publish")
        await stalled.until_stopped()
        began = time.monotonic()
        (mine,) = await broker.publish("q", b"mine")
        assert time.monotonic() - began < limits.LOCK_HOLD_SECONDS + SLACK_SECONDS
        assert mine.sequence == 1
        theirs = await stalled.go_on()
        log = await log_of(broker, "q")
        assert [message.id.hex() for message in log] == [mine.id, *theirs]
        assert [message.seq for message in log] == [1, 2, 3]


@pytest.mark.parametrize("store", ["postgres", "mariadb"])
async def test_what_a_stalled_claim_was_about_to_take_is_anothers(
    request: pytest.FixtureRequest, store: str, start: type[Stalled]
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    async with rowlock.open(url, owner="tester") as broker:
        await broker.create_queue("q")
        await broker.publish("q", [b"one", b"two"])
        stalled = start(url, "claim")
        await stalled.until_stopped()
        (one, two) = await broker.claim("q", 10, visibility_timeout=600)
        assert [one.receives, two.receives] == [1, 1]
        assert await stalled.go_on() == []
        await broker.settle([one, two])
        depth = await broker.depth("q")
        assert (depth.ready, depth.in_flight) == (0, 0)


async def test_a_held_file_is_waited_for_no_longer_than_patience_lasts(
    sqlite_url: str, start: type[Stalled], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has nobody who could take a stopped process's lock away."""
    monkeypatch.setattr(limits, "LOCK_HOLD_SECONDS", 0.2)
    async with rowlock.open(sqlite_url, owner="tester", patience=1.0) as broker:
        await broker.create_queue("q")
        stalled = start(sqlite_url, "publish")
        await stalled.until_stopped()
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"[Nn]othing was stored.*lock"):
            await broker.publish("q", b"refused")
        assert time.monotonic() - began < 3
        theirs = await stalled.go_on()
        (mine,) = await broker.publish("q", b"mine")
        assert [message.id.hex() for message in await log_of(broker, "q")] == [*theirs, mine.id]
