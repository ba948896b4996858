"""A proxy on loopback, before a server's unix socket, that loses answers and delays requests."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 1 << 20


class Link:
    """One client's connection through the proxy."""

    def __init__(self, server: asyncio.StreamWriter):
        self.carried = b""
        """All that the client has sent."""
        self.answered = asyncio.Event()
        """The server has answered the swallowed or delayed request."""
        self.held = asyncio.Event()
        """The request came, and is kept back."""
        self._server = server
        self._mode = ""
        self._marker = b""
        self._kept = b""

    def swallow(self, marker: bytes = b"") -> None:
        """From the next request with the marker on, the client gets no answer any more."""
        self._mode, self._marker = "swallow", marker

    def delay(self, marker: bytes = b"") -> None:
        """The next request with the marker, and all after it, reach the server when the test says `deliver`."""
        self._mode, self._marker = "delay", marker

    async def deliver(self) -> None:
        """Let the server have what was kept back, wait for its answer (or for its having gone), and hang up."""
        self._server.write(self._kept)
        await self._server.drain()
        await self.answered.wait()
        self.close()

    @property
    def is_armed(self) -> bool:
        return self._mode in ("swallow", "delay")

    @property
    def is_deaf(self) -> bool:
        """Whether the client gets no answers any more."""
        return self._mode in ("swallowing", "delaying")

    async def send(self, data: bytes) -> None:
        self.carried += data
        if self.is_armed and self._marker in data:
            self._mode = {"swallow": "swallowing", "delay": "delaying"}[self._mode]
        if self._mode == "delaying":
            self._kept += data
            self.held.set()
            return
        self._server.write(data)
        await self._server.drain()

    def client_left(self) -> None:
        """The server is not told while something is still on its way to it."""
        if not self.is_deaf:
            self.close()

    def close(self) -> None:
        self._server.close()


class Proxy:
    """Listens on a port of its own."""

    def __init__(self, target: Path):
        self.links: list[Link] = []
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in self.links:
            link.close()

    def link_of(self, marker: bytes) -> Link:
        """The connection that carried this last."""
        return next(link for link in reversed(self.links) if marker in link.carried)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        link = Link(server_writer)
        self.links.append(link)
        for pump in (_requests(reader, link), _answers(server_reader, writer, link)):
            task = asyncio.create_task(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _requests(reader: asyncio.StreamReader, link: Link) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            await link.send(data)
    link.client_left()


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link) -> None:
    try:
        while data := await reader.read(CHUNK_BYTES):
            if link.is_deaf:
                link.answered.set()
                continue
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # the client has left
    finally:
        link.answered.set()
        writer.close()
