"""The server put together: the broker with all of its background work, behind HTTP, until a signal ends it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rowlock.broker.broker import Broker
from rowlock.broker.redriving import Redriving
from rowlock.delivery.delivery import Delivery
from rowlock.server.alone import only_server
from rowlock.server.http import listen, serve
from rowlock.server.probe import BrokerProbe
from rowlock.store import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


async def run(url: str, host: str, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve; `ready` is called with the server's address once the broker is open and answers."""
    with listen(host, port) as listening, only_server(url):
        async with opened(url) as probe:
            number = listening.getsockname()[1]
            address = f"http://{f'[{host}]' if ':' in host else host}:{number}"
            await serve(probe, listening, lambda: ready(address))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[BrokerProbe]:
    """The broker, and what there is to tell of it."""
    broker = Broker(connect(url))
    delivery, redriving = Delivery(broker), Redriving(broker)
    await broker.open()
    delivery.start()
    redriving.start()
    try:
        yield BrokerProbe(broker, delivery)
    finally:
        await redriving.close()
        await delivery.close()
        await broker.close()
