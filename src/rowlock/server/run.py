"""The server put together: the broker with all of its background work, behind HTTP, until a signal ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.broker.broker import Broker
from rowlock.broker.redriving import Redriving
from rowlock.errors import Unavailable
from rowlock.server.alone import only_server
from rowlock.server.http import listen, serve
from rowlock.server.probe import BrokerProbe
from rowlock.store import connect
from rowlock.store.faults import StoreFault

if TYPE_CHECKING:
    from collections.abc import Callable


async def run(url: str, host: str, port: int, *, ready: Callable[[str], None]) -> None:
    """Serve; `ready` is called with the server's address once it answers."""
    store = connect(url)
    with listen(host, port) as listening, only_server(url):
        broker = Broker(store)
        try:
            await broker.open()
        except StoreFault as fault:
            raise Unavailable(f"The database cannot be reached: {fault}") from fault
        redriving = Redriving(broker)
        redriving.start()
        try:
            number = listening.getsockname()[1]
            ready(f"http://{f'[{host}]' if ':' in host else host}:{number}")
            await serve(BrokerProbe(broker), listening)
        finally:
            await redriving.close()
            await broker.close()
