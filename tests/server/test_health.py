"""The server's pages: health with its reasons, version, metrics, and an end that answers what is under way."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest

from rowlock import limits
from rowlock.errors import StorageFull, Unavailable
from rowlock.server import http
from rowlock.version import VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


UVICORN_END_SECONDS = 0.5
"""It looks for the end every 0.1 s, three times, when nothing is under way: a server that waits takes longer."""


class Broker:
    """A probe whose answers a test chooses."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def health(self) -> Mapping[str, object]:
        self.asked.set()
        await self.may_answer.wait()
        if self.trouble:
            raise self.trouble
        return {"database": "reachable", "schema": 1}

    async def metrics(self) -> str:
        return "# TYPE rowlock_cycles_total counter\nrowlock_cycles_total 3\n"


class Reply(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        decoded: dict[str, object] = msgspec.json.decode(self.body)
        return decoded


class Site:
    """A running server and its broker."""

    def __init__(self, broker: Broker, port: int, task: asyncio.Task[None]):
        self.broker = broker
        self.port = port
        self.task = task

    async def ask(self, path: str, method: str = "GET") -> Reply:
        reader, writer = await asyncio.open_connection(http.HOST, self.port)
        writer.write(f"{method} {path} HTTP/1.1\r\nhost: rowlock\r\nconnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return Reply(int(first.split(" ")[1]), headers, body)


@asynccontextmanager
async def serving() -> AsyncIterator[Site]:
    broker = Broker()
    with http.listen(port=0) as listening:
        task = asyncio.create_task(http.serve(broker, listening))
        site = Site(broker, listening.getsockname()[1], task)
        assert (await site.ask("/version")).status == 200
        yield site
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await task


async def test_version() -> None:
    async with serving() as site:
        assert (await site.ask("/version")).json() == {"name": "rowlock", "version": VERSION}


async def test_healthy() -> None:
    async with serving() as site:
        reply = await site.ask("/health")
        assert reply.status == 200
        assert reply.json() == {"status": "ok", "database": "reachable", "schema": 1}


@pytest.mark.parametrize("trouble", [Unavailable("The database is away."), StorageFull("The disk is full.")])
async def test_unhealthy_says_why(trouble: Exception) -> None:
    async with serving() as site:
        site.broker.trouble = trouble
        reply = await site.ask("/health")
        assert reply.status == 503
        assert reply.json() == {"status": "unhealthy", "error": str(trouble), "kind": type(trouble).__name__}


async def test_a_broker_that_does_not_answer_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEALTH_SECONDS", 0.01)
    async with serving() as site:
        site.broker.may_answer.clear()
        reply = await site.ask("/health")
        assert reply.status == 503
        assert reply.json()["error"] == "The broker did not answer within 0.01 s."


async def test_metrics_are_prometheus_text() -> None:
    async with serving() as site:
        reply = await site.ask("/metrics")
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert reply.body.endswith(b"\nrowlock_cycles_total 3\n")


async def test_head_has_no_body() -> None:
    async with serving() as site:
        reply = await site.ask("/health", "HEAD")
        assert (reply.status, reply.body) == (200, b"")


async def test_unknown_paths_and_methods_are_sentences() -> None:
    async with serving() as site:
        lost = await site.ask("/healthy")
        assert lost.status == 404
        assert lost.json() == {"error": "There is nothing at '/healthy'; there is /health, /version, /metrics."}
        refused = await site.ask("/health", "DELETE")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
        assert refused.json() == {"error": "/health answers GET and HEAD, not DELETE."}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_when_what_is_under_way_is_answered(number: signal.Signals) -> None:
    async with serving() as site:
        site.broker.may_answer.clear()
        site.broker.asked.clear()
        under_way = asyncio.create_task(site.ask("/health"))
        await site.broker.asked.wait()
        os.kill(os.getpid(), number)
        ended, _ = await asyncio.wait({site.task}, timeout=UVICORN_END_SECONDS)
        assert not ended
        site.broker.may_answer.set()
        assert (await under_way).status == 200
        await site.task
        with pytest.raises(ConnectionRefusedError):
            await site.ask("/version")


async def test_a_port_in_use_is_told() -> None:
    with http.listen(port=0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(Unavailable, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            http.listen(port=port)
