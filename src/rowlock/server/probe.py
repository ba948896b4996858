"""What the server tells of its broker: health in a few words, and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.broker.describe import Describe
from rowlock.errors import Unavailable
from rowlock.server import metrics
from rowlock.store.faults import StoreFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.broker.broker import Broker


class BrokerProbe:
    """See `server.http.Probe`."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._describe = Describe(broker)

    async def health(self) -> Mapping[str, object]:
        for cycle in self._broker.cycles.values():
            if cycle.trouble is not None:
                raise Unavailable(cycle.trouble)
        try:
            await self._broker.store.control.clock()
        except StoreFault as fault:
            raise Unavailable(f"The database cannot be reached: {fault}") from fault
        return {"database": self._broker.store.dialect, "lanes": self._broker.store.lanes}

    async def metrics(self) -> str:
        return await metrics.text(self._broker, self._describe)
