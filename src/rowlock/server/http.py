"""The HTTP side of the server: health, version and metrics, and a graceful end on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import uvicorn

from rowlock import limits
from rowlock.errors import RowlockError, Unavailable
from rowlock.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

HOST = "127.0.0.1"
PORT = 9324

JSON = b"application/json"
PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"

Message = dict[str, Any]


class Probe(Protocol):
    """What the server knows of the broker that it serves."""

    async def health(self) -> Mapping[str, object]:
        """What is well, by name (JSON values). Raises a `RowlockError` whose sentence says what is not."""

    async def metrics(self) -> str:
        """Counters and gauges in Prometheus' text format."""


class Answer(msgspec.Struct):
    status: int
    content_type: bytes
    body: bytes
    allow: bytes | None = None


class Application:
    """The ASGI application."""

    def __init__(self, probe: Probe):
        self._probe = probe
        self._pages: dict[str, Callable[[], Awaitable[Answer]]] = {
            "/health": self._health,
            "/version": self._version,
            "/metrics": self._metrics,
        }

    async def __call__(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        answer = await self._answer(scope["method"], scope["path"])
        headers = [(b"content-type", answer.content_type), (b"content-length", str(len(answer.body)).encode())]
        if answer.allow:
            headers.append((b"allow", answer.allow))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, method: str, path: str) -> Answer:
        page = self._pages.get(path)
        if page is None:
            return _sentence(404, f"There is nothing at {path!r}; there is {', '.join(self._pages)}.")
        if method not in ("GET", "HEAD"):
            refusal = _sentence(405, f"{path} answers GET and HEAD, not {method}.")
            refusal.allow = b"GET, HEAD"
            return refusal
        return await page()

    async def _health(self) -> Answer:
        try:
            async with asyncio.timeout(limits.HEALTH_SECONDS):
                return _json(200, {"status": "ok", **await self._probe.health()})
        except TimeoutError:
            return _unwell(Unavailable(f"The broker did not answer within {limits.HEALTH_SECONDS} s."))
        except RowlockError as error:
            return _unwell(error)

    async def _version(self) -> Answer:
        return _json(200, {"name": "rowlock", "version": VERSION})

    async def _metrics(self) -> Answer:
        return Answer(200, PROMETHEUS, (await self._probe.metrics()).encode())


def _json(status: int, content: object) -> Answer:
    return Answer(status, JSON, msgspec.json.encode(content))


def _sentence(status: int, sentence: str) -> Answer:
    return _json(status, {"error": sentence})


def _unwell(error: RowlockError) -> Answer:
    return _json(503, {"status": "unhealthy", "error": str(error), "kind": type(error).__name__})


class _Server(uvicorn.Server):
    """uvicorn on our event loop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `serve`: uvicorn would raise them again at its end, before the broker is closed."""
        yield


def listen(host: str = HOST, port: int = PORT) -> socket.socket:
    """Bind the server's socket, so that a port in use is found before the broker starts. Port 0: any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=limits.HTTP_BACKLOG_CONNECTIONS)
    except OSError as error:
        raise Unavailable(f"The server cannot listen on {host} port {port}: {error.strerror or error}.") from error


async def serve(probe: Probe, listening: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Answer until SIGTERM or SIGINT; requests under way are answered first, for a bounded time.

    `ready` is called once these signals end the server well; the socket takes connections before that.
    """
    server = _Server(
        uvicorn.Config(
            Application(probe),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=limits.HTTP_DRAIN_SECONDS,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    try:
        ready()
        await server.serve(sockets=[listening])
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
