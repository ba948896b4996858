"""Metrics in Prometheus' text format: what each cycle did, who waits, and how much is in each queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowlock import limits
from rowlock.errors import NotFound, RowlockError
from rowlock.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rowlock.broker.broker import Broker
    from rowlock.broker.describe import Describe
    from rowlock.delivery.delivery import Delivery
    from rowlock.model import Depth

    Sample = tuple[Mapping[str, object], float]

COUNTERS = {
    "cycles": "Transactions that were committed.",
    "works": "Requests that these carried.",
    "locked": "Cycles that were decided under lock, because something had changed.",
    "retried": "Cycles that lost a lock race and were tried again.",
    "reconnected": "Connections that were given up.",
    "unknown": "Commits whose outcome had to be looked up.",
}
"""Of `broker.cycle.Counters`: one of each for each lane and durability."""
STATES = ("ready", "in_flight", "delayed", "dying")


async def text(broker: Broker, delivery: Delivery, describe: Describe) -> str:
    """Everything, in a bounded time: while the database is away, depths are left out and `rowlock_up` is 0."""
    try:
        async with asyncio.timeout(limits.HEALTH_SECONDS):
            depths, more = await _depths(broker, describe)
            up = 1
    except (TimeoutError, RowlockError):
        depths, more, up = {}, False, 0
    lines = [
        *_metric("info", "gauge", "The version of Rowlock.", [({"version": VERSION}, 1)]),
        *_metric("up", "gauge", "Whether the database answers.", [({}, up)]),
        *_of_cycles(broker),
        *_metric("waiters", "gauge", "Claims that wait for a message.", [({}, delivery.waiters.count)]),
        *_of_depths(depths, more=more),
    ]
    return "\n".join(lines) + "\n"


def _of_cycles(broker: Broker) -> Iterable[str]:
    cycles = [
        ({"lane": lane, "durability": durability.value}, one) for (lane, durability), one in broker.cycles.items()
    ]
    for name, says in COUNTERS.items():
        yield from _metric(f"{name}_total", "counter", says, [(on, getattr(one.counters, name)) for on, one in cycles])
    troubled = [(on, int(one.trouble is not None)) for on, one in cycles]
    yield from _metric("trouble", "gauge", "Whether the database cannot be reached or written at the moment.", troubled)


async def _depths(broker: Broker, describe: Describe) -> tuple[dict[str, Depth], bool]:
    """The first subscriptions by name (queues among them), and whether there are more."""
    most = limits.METRICS_SUBSCRIPTIONS_COUNT
    entries = await broker.store.control.list("subscription", limit=most + 1)
    depths = {}
    for entry in entries[:most]:
        try:
            depths[entry.name] = await describe.depth(entry.name)
        except NotFound:
            continue  # It was deleted since it was listed.
    return depths, len(entries) > most


def _of_depths(depths: Mapping[str, Depth], *, more: bool) -> Iterable[str]:
    counts = [
        ({"subscription": name, "state": state}, getattr(one, state))
        for name, one in depths.items()
        for state in STATES
    ]
    yield from _metric("messages", "gauge", "Messages that a subscription or queue is not done with.", counts)
    ages = [({"subscription": name}, one.oldest_age or 0) for name, one in depths.items()]
    yield from _metric("oldest_seconds", "gauge", "How long ago the oldest of them was published.", ages)
    says = f"Whether there are subscriptions beyond the {limits.METRICS_SUBSCRIPTIONS_COUNT} that are listed."
    yield from _metric("subscriptions_left_out", "gauge", says, [({}, int(more))])


def _metric(name: str, kind: str, says: str, samples: Iterable[Sample]) -> Iterable[str]:
    """Names are letters, digits, '-', '_' and '.': labels need no escaping."""
    yield f"# HELP rowlock_{name} {says}"
    yield f"# TYPE rowlock_{name} {kind}"
    for labels, value in samples:
        marks = ",".join(f'{label}="{one}"' for label, one in labels.items())
        yield f"rowlock_{name}{{{marks}}} {value}" if marks else f"rowlock_{name} {value}"
