"""The topics and subscriptions of a run, and how each of them is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rowlock.simulate.options import EXPIRY

if TYPE_CHECKING:
    from rowlock.embedded import Broker

KEYS_COUNT = 40
MAX_RECEIVES = 3


class Stream(Struct, frozen=True):
    """A topic with its subscriptions, or a queue, which is both."""

    topic: str
    subscriptions: tuple[str, ...]
    weight: int
    """How often producers choose it."""
    keyed: bool = False
    """Ordered by key."""
    partitions: int = 1
    delayed: float = 0.0
    """The share of messages that are delayed."""
    expires_in: tuple[float, float] | None = None
    poisoned: float = 0.0
    """The share of messages that no consumer can ever settle."""
    dead_letter: str | None = None

    @property
    def is_queue(self) -> bool:
        return self.subscriptions == (self.topic,)


class Streams(Struct, frozen=True):
    """All of a run."""

    all: tuple[Stream, ...]

    @property
    def published(self) -> list[Stream]:
        """Those that producers publish to."""
        return [stream for stream in self.all if stream.weight]

    @property
    def subscriptions(self) -> list[str]:
        return [name for stream in self.all for name in stream.subscriptions]

    def of(self, topic: str) -> Stream:
        return next(stream for stream in self.all if stream.topic == topic)

    def read_by(self, subscription: str) -> Stream:
        return next(stream for stream in self.all if subscription in stream.subscriptions)


def streams(prefix: str, faults: Sequence[str] | frozenset[str]) -> Streams:
    """One of each kind."""

    def named(name: str) -> str:
        return f"{prefix}{name}"

    # Some of the late ones expire before they are due.
    expires_in, late = ((0.2, 2.0), 0.3) if EXPIRY in faults else ((3600.0, 3600.0), 0.0)
    news = (named("news-reader"), named("news-archive"))
    return Streams(
        (
            Stream(named("orders"), (named("orders"),), weight=4),
            Stream(named("accounts"), (named("accounts"),), weight=4, keyed=True, partitions=2, delayed=0.02),
            Stream(named("news"), news, weight=2),
            Stream(named("jobs"), (named("jobs"),), weight=2, poisoned=0.05, dead_letter=named("jobs-dead")),
            Stream(named("jobs-dead"), (named("jobs-dead"),), weight=0),
            Stream(named("offers"), (named("offers"),), weight=2, expires_in=expires_in, delayed=late),
            Stream(named("reminders"), (named("reminders"),), weight=1, delayed=1.0),
        )
    )


async def create(broker: Broker, all_streams: Streams) -> None:
    for stream in all_streams.all:
        settings: dict[str, Any] = {}
        if stream.keyed:
            settings["order"] = "key"
        if stream.dead_letter is not None:
            settings |= {"max_receives": MAX_RECEIVES, "dead_letter": stream.dead_letter}
        if stream.is_queue:
            await broker.create_queue(stream.topic, partitions=stream.partitions, **settings)
            continue
        await broker.create_topic(stream.topic, partitions=stream.partitions)
        for name in stream.subscriptions:
            await broker.create_subscription(name, stream.topic, start="earliest", **settings)


async def delete(broker: Broker, all_streams: Streams) -> None:
    """Leave nothing behind in a database that is not ours."""
    for stream in all_streams.all:
        if stream.is_queue:
            await broker.delete_queue(stream.topic)
            continue
        for name in stream.subscriptions:
            await broker.delete_subscription(name)
        await broker.delete_topic(stream.topic)
