"""Describe: what topics, subscriptions and queues are, and how much is in them; by arithmetic, whatever the backlog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from rowlock.broker.catalog import Source, Subscription, Topic
from rowlock.clock import moment
from rowlock.errors import NotFound
from rowlock.ledger import stored
from rowlock.ledger.ledger import Ledger
from rowlock.model import Depth, Description
from rowlock.settings import check_name, check_prefix

if TYPE_CHECKING:
    from rowlock.broker.broker import Broker


class _Counts(msgspec.Struct):
    ready: int = 0
    in_flight: int = 0
    delayed: int = 0
    dying: int = 0
    oldest_at: int | None = None


class Describe:
    """Everything that is read for people and for monitoring."""

    def __init__(self, broker: Broker):
        self._broker = broker

    async def show(self, kind: str, name: str) -> Description:
        return await self._broker.current(name, lambda: self._show(kind, name))

    async def _show(self, kind: str, name: str) -> Description:
        catalog = self._broker.catalog
        check_name(name)
        catalog.forget(name)
        if kind == "topic":
            return await self._topic(await catalog.topic(name))
        subscription = await catalog.subscription(name)
        if kind == "queue" and not subscription.queue:
            raise NotFound(f"{name!r} is a subscription, and not a queue.")
        return await self._subscription(subscription, kind)

    async def every(self, kind: str, prefix: str) -> list[Description]:
        """Without depths: a list of many is one query a thousand."""
        check_prefix(prefix)
        control = self._broker.store.control
        found: list[Description] = []
        after = ""
        while entries := await control.list(
            "topic" if kind == "topic" else "subscription", prefix=prefix, after=after, limit=1000
        ):
            after = entries[-1].name
            for entry in entries:
                document = msgspec.json.decode(entry.document)
                if kind == "queue" and not document["queue"]:
                    continue
                settings = document["settings"]
                found.append(Description(entry.name, kind, entry.id, moment(entry.created_at), entry.owner, settings))
        return found

    async def depth(self, name: str) -> Depth:
        async def depth() -> Depth:
            return await self._depth(await self._broker.catalog.subscription(name))

        return await self._broker.current(name, depth)

    async def _topic(self, topic: Topic) -> Description:
        partitions: list[dict[str, Any]] = []
        for partition in topic.partitions:
            async with self._broker.lanes.use(partition.lane) as lane:
                rows = await lane.partition_rows([partition.part])
            partitions += [
                {
                    "partition": partition.number,
                    "lane": partition.lane,
                    "first": row.first,
                    "last": row.last,
                    "scheduled": row.waiting,
                }
                for row in rows
            ]
        return Description(
            name=topic.name,
            kind="topic",
            id=topic.id,
            created_at=moment(topic.created_at),
            owner=topic.owner,
            settings=msgspec.to_builtins(topic.settings),
            topics=[],
            partitions=partitions,
        )

    async def _subscription(self, subscription: Subscription, kind: str) -> Description:
        settings: dict[str, Any] = msgspec.to_builtins(subscription.settings)
        if kind == "queue":
            settings |= msgspec.to_builtins(subscription.topics[0].settings)
        partitions: list[dict[str, Any]] = []
        for source in subscription.sources:
            async with self._broker.lanes.use(source.lane) as lane:
                positions = await lane.positions([(source.part, subscription.id)])
            partitions += [
                {
                    "topic": next(topic.name for topic in subscription.topics if topic.id == source.topic),
                    "partition": source.number,
                    "frontier": one.frontier,
                    "last": one.last,
                    "lag": one.last - one.frontier + 1 + one.outstanding,
                }
                for one in positions
            ]
        return Description(
            name=subscription.name,
            kind=kind,
            id=subscription.id,
            created_at=moment(subscription.created_at),
            owner=subscription.owner,
            settings=settings,
            topics=[topic.name for topic in subscription.topics],
            partitions=partitions,
            depth=await self._depth(subscription),
        )

    async def _depth(self, subscription: Subscription) -> Depth:
        counts = _Counts()
        for source in subscription.sources:
            await self._count(subscription, source, counts)
        age = None
        if counts.oldest_at is not None:
            age = max(0.0, (self._broker.clock.now() - counts.oldest_at) / 1000)
        return Depth(counts.ready, counts.in_flight, counts.delayed, counts.dying, age)

    async def _count(self, subscription: Subscription, source: Source, counts: _Counts) -> None:
        """Add what one ledger has; read without a lock, so that it never waits for a cycle."""
        cursor = (source.part, subscription.id)
        async with self._broker.lanes.use(source.lane) as lane:
            positions = await lane.positions([cursor])
            rows = await lane.pages(cursor)
            if not positions or not rows:
                return
            ledger = Ledger(msgspec.structs.replace(subscription.rules, order="none", fair=False))
            stored.install(ledger, stored.incoming(ledger, rows), {})
            ledger.advance(self._broker.clock.now())
            counts.ready += ledger.ready(positions[0].last)
            counts.in_flight += ledger.held
            counts.delayed += ledger.waiting + positions[0].waiting
            counts.dying += len(ledger.dying)
            lowest = ledger.lowest
            if lowest <= positions[0].last:
                for message in await lane.messages([], [(source.part, lowest)]):
                    counts.oldest_at = min(counts.oldest_at or message.published_at, message.published_at)
