"""`rowlock serve`: a process with pages, alone on its SQLite file, that ends when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from rowlock import limits
from rowlock.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Rowlock


class Server:
    """A running `rowlock serve`."""

    def __init__(self, process: subprocess.Popen[str], address: str):
        self.process = process
        self.address = address

    def page(self, path: str) -> str:
        with urlopen(self.address + path, timeout=20) as answer:
            text: str = answer.read().decode()
            return text

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def serving(store: str | None, folder: Path) -> Iterator[Server]:
    command = [sys.executable, "-c", "from rowlock.cli import main; main()", "serve", "--port", "0", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "ROWLOCK_STORE"}
    with subprocess.Popen(
        command + (["--store", store] if store else []), stdout=subprocess.PIPE, cwd=folder, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = process.stdout.readline()
            assert line, "the server ended before it was ready"
            text += line
        try:
            yield Server(process, json.loads(text)["address"])
        finally:
            process.kill()


def samples(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_pages_and_end(rowlock: Rowlock, tmp_path: Path, number: signal.Signals) -> None:
    rowlock("queue", "create", "orders")
    rowlock("send", "orders", "a", "b")
    with serving(rowlock.store, tmp_path) as server:
        assert json.loads(server.page("/health")) == {"status": "ok", "database": "sqlite", "lanes": 1}
        assert json.loads(server.page("/version")) == {"name": "rowlock", "version": VERSION}
        told = samples(server.page("/metrics"))
        assert told['rowlock_messages{subscription="orders",state="ready"}'] == 2
        assert (told["rowlock_up"], told["rowlock_waiters"], told["rowlock_subscriptions_left_out"]) == (1, 0, 0)
        assert server.end(number) == 0


def test_the_default_is_a_file_in_a_folder_that_is_made(tmp_path: Path) -> None:
    with serving(None, tmp_path) as server:
        assert (tmp_path / "data" / "rowlock.db").exists()
        assert server.end(signal.SIGTERM) == 0


def test_one_server_per_file(rowlock: Rowlock, tmp_path: Path) -> None:
    with serving(rowlock.store, tmp_path) as server:
        refused = rowlock.refusal("serve", "--port", "0")
        assert f"Another server (process {server.process.pid}) serves " in refused
        rowlock("queue", "create", "orders")
        server.end(signal.SIGKILL)
    with serving(rowlock.store, tmp_path) as server:
        assert server.end(signal.SIGTERM) == 0


def test_a_port_in_use(rowlock: Rowlock, tmp_path: Path) -> None:
    with serving(rowlock.store, tmp_path) as server:
        port = server.address.rsplit(":", 1)[1]
        refused = rowlock.refusal("serve", "--port", port, "--store", f"sqlite:///{tmp_path / 'other.db'}")
        assert refused.startswith(f"The server cannot listen on 127.0.0.1 port {port}: Address already in use")


async def test_metrics_are_bounded(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rowlock.server.run import opened

    monkeypatch.setattr(limits, "METRICS_SUBSCRIPTIONS_COUNT", 2)
    async with opened(sqlite_url) as probe:
        for number in range(3):
            await probe.broker.administer.create_queue(f"queue-{number}", {})
        told = samples(await probe.metrics())
    listed = {name for name in told if name.startswith("rowlock_oldest_seconds")}
    assert listed == {
        'rowlock_oldest_seconds{subscription="queue-0"}',
        'rowlock_oldest_seconds{subscription="queue-1"}',
    }
    assert told["rowlock_subscriptions_left_out"] == 1


async def test_a_database_that_is_away(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rowlock.server.run import opened
    from rowlock.store.faults import Lost

    async def away(*_: Any, **__: Any) -> Any:
        raise Lost("The database is away.")

    async with opened(sqlite_url) as probe:
        await probe.broker.administer.create_queue("orders", {})
        await probe.health()
        with monkeypatch.context() as patched:
            patched.setattr(probe.broker.store.control, "clock", away)
            patched.setattr(probe.broker.store.control, "list", away)
            with pytest.raises(Lost):
                await probe.health()
            told = samples(await probe.metrics())
        assert told["rowlock_up"] == 0
        assert not [name for name in told if name.startswith("rowlock_messages")]
        assert samples(await probe.metrics())["rowlock_up"] == 1
