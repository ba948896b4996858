"""What the server tells of its broker: health in a few words, and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.broker.describe import Describe
from rowlock.errors import Unavailable
from rowlock.server import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.broker.broker import Broker
    from rowlock.delivery.delivery import Delivery


class BrokerProbe:
    """See `server.http.Probe`."""

    def __init__(self, broker: Broker, delivery: Delivery):
        self.broker = broker
        self._delivery = delivery
        self._describe = Describe(broker)

    async def health(self) -> Mapping[str, object]:
        for cycle in self.broker.cycles.values():
            if cycle.trouble is not None:
                raise Unavailable(cycle.trouble)
        await self.broker.store.control.clock()
        return {"database": self.broker.store.dialect, "lanes": self.broker.store.lanes}

    async def metrics(self) -> str:
        return await metrics.text(self.broker, self._delivery, self._describe)
