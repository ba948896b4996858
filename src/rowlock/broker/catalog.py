"""The catalog: topics, subscriptions and queues by name, cached, and made true in every lane.

A settings' version is kept in the catalog and, as lock rows, beside the hot tables. Whoever finds a lock row missing
or at another version comes back here. A change is written to the catalog first and to the lanes afterwards; who finds
it half done (a process died in between) completes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from rowlock import limits
from rowlock.broker.work import Place
from rowlock.errors import NotFound
from rowlock.ledger.rules import Rules
from rowlock.settings import SubscriptionSettings, TopicSettings, check_name
from rowlock.store.port import Control, Cursor, Durability, Entry

_T = TypeVar("_T")


class TopicDocument(Struct):
    settings: TopicSettings
    queue: bool = False
    ready: bool = False
    """Whether its lock rows exist in the lanes."""
    added: int = 0
    """How many of its partitions nobody asked for: a dead-letter queue has one in every lane of its sources."""


class SubscriptionDocument(Struct):
    settings: SubscriptionSettings
    topics: list[int]
    start: str = "latest"
    """Where it begins in partitions that it has no cursor in yet."""
    queue: bool = False
    ready: bool = False


class PartitionDocument(Struct):
    lane: int
    number: int


class Partition(Struct, frozen=True, gc=False):
    part: int
    number: int
    lane: int


class Topic(Struct, frozen=True):
    """A topic as it stands in the catalog."""

    id: int
    name: str
    version: int
    settings: TopicSettings
    partitions: tuple[Partition, ...]
    ordered: bool
    """Whether any of its subscriptions is ordered: then delayed messages are held back by the ledgers."""
    keyed: bool
    """Whether any of its subscriptions is ordered by key: then every message needs one."""
    queue: bool
    created_at: int
    owner: str
    durability: Durability
    appends: dict[int, dict[int, int]]
    """For a work that appends to one partition: what it locks."""


class Source(Struct, frozen=True, gc=False):
    """One partition that a subscription reads."""

    part: int
    number: int
    lane: int
    topic: int
    durability: Durability


class Subscription(Struct, frozen=True):
    """A subscription as it stands in the catalog."""

    id: int
    name: str
    version: int
    settings: SubscriptionSettings
    topics: tuple[Topic, ...]
    sources: tuple[Source, ...]
    queue: bool
    created_at: int
    owner: str
    rules: Rules
    cursors: tuple[Cursor, ...]
    places: dict[int, dict[Cursor, Place]]
    """For a work on one partition: the cursor that it uses."""
    largest_bytes: int
    """The largest message that any of its topics takes."""


class Catalog:
    """Names and ids to topics and subscriptions, as of the last look."""

    def __init__(self, control: Control):
        self._control = control
        self._topics: dict[str, Topic] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._names: dict[int, str] = {}
        self._parents: dict[int, int] = {}
        self._loading: dict[tuple[str, str], asyncio.Task[Any]] = {}

    def forget(self, name: str) -> None:
        """Look again the next time."""
        self._topics.pop(name, None)
        self._subscriptions.pop(name, None)

    def forget_all(self) -> None:
        for known in (self._topics, self._subscriptions, self._names, self._parents):
            known.clear()

    async def topic(self, name: object) -> Topic:
        found = self._topics.get(name) if isinstance(name, str) else None
        if found is None:
            found = await self._once("topic", check_name(name), self._load_topic)
        return found

    async def subscription(self, name: object) -> Subscription:
        found = self._subscriptions.get(name) if isinstance(name, str) else None
        if found is None:
            found = await self._once("subscription", check_name(name), self._load_subscription)
        return found

    async def name_of(self, known_id: int) -> str:
        """The name of a topic or subscription by its id."""
        name = self._names.get(known_id)
        if name is None:
            entries = await self._control.get([known_id])
            if not entries:
                raise NotFound(f"There is no topic or subscription with the id {known_id} any more.")
            name = self._names[known_id] = entries[0].name
        return name

    async def topic_name_of(self, part: int) -> str:
        """The name of the topic that a partition belongs to."""
        topic = self._parents.get(part)
        if topic is None:
            entries = await self._control.get([part])
            if not entries:
                raise NotFound(f"There is no partition with the id {part} any more.")
            topic = self._parents[part] = entries[0].parent or 0
        return await self.name_of(topic)

    async def topic_of(self, part: int) -> Topic:
        return await self.topic(await self.topic_name_of(part))

    async def subscription_by_id(self, known_id: int) -> Subscription:
        found = await self.subscription(await self.name_of(known_id))
        if found.id != known_id:
            raise NotFound(f"The subscription with the id {known_id} was deleted.")
        return found

    async def subscriptions_of(self, topic: int) -> list[Subscription]:
        """The subscriptions that read a topic."""
        sources = await self._control.children("source", [topic])
        found = []
        for source in sources:
            try:
                found.append(await self.subscription_by_id(int(source.name.split("/")[0])))
            except NotFound:
                continue
        return found

    async def _once(self, kind: str, name: str, load: Callable[[str], Awaitable[_T]]) -> _T:
        """One look for all who ask at the same time; a caller that is cancelled does not spoil it for the others."""
        key = (kind, name)
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.ensure_future(load(name))
            task.add_done_callback(lambda _: self._loading.pop(key, None))
        result: _T = await asyncio.shield(task)
        return result

    async def _load_topic(self, name: str) -> Topic:
        entries = await self._control.find("topic", [name])
        if not entries:
            raise NotFound(f"There is no topic or queue named {name!r}.")
        topic = (await self.topics_of(entries))[0]
        if len(self._topics) >= limits.CATALOG_CACHE_ENTRIES:
            self._topics.clear()
        self._topics[name] = topic
        self._names[topic.id] = name
        return topic

    async def _load_subscription(self, name: str) -> Subscription:
        entries = await self._control.find("subscription", [name])
        if not entries:
            raise NotFound(f"There is no subscription or queue named {name!r}.")
        subscription = await self._subscription(entries[0])
        if len(self._subscriptions) >= limits.CATALOG_CACHE_ENTRIES:
            self._subscriptions.clear()
        self._subscriptions[name] = subscription
        self._names[subscription.id] = name
        return subscription

    async def topics_of(self, entries: Sequence[Entry]) -> list[Topic]:
        """Topics with their partitions, from their entries."""
        ids = [entry.id for entry in entries]
        partitions = await self._control.children("partition", ids)
        sources = await self._control.children("source", ids)
        readers = {int(source.name.split("/")[0]) for source in sources}
        orders = {
            entry.id: msgspec.json.decode(entry.document, type=SubscriptionDocument).settings.order
            for entry in (await self._control.get(sorted(readers)) if readers else ())
        }
        topics = []
        for entry in entries:
            document = msgspec.json.decode(entry.document, type=TopicDocument)
            mine = {
                orders.get(int(source.name.split("/")[0]), "none") for source in sources if source.parent == entry.id
            }
            topics.append(
                Topic(
                    id=entry.id,
                    name=entry.name,
                    version=entry.version,
                    settings=document.settings,
                    partitions=(own := tuple(sorted(_partitions(partitions, entry.id), key=lambda one: one.number))),
                    ordered=bool(mine - {"none"}),
                    keyed="key" in mine,
                    queue=document.queue,
                    created_at=entry.created_at,
                    owner=entry.owner,
                    durability=Durability(document.settings.durability),
                    appends={one.part: {one.part: entry.version} for one in own},
                )
            )
        return topics

    async def _subscription(self, entry: Entry) -> Subscription:
        document = msgspec.json.decode(entry.document, type=SubscriptionDocument)
        topics = await self.topics_of(await self._control.get(document.topics))
        by_id = {topic.id: topic for topic in topics}
        topics = [by_id[id_] for id_ in document.topics if id_ in by_id]
        sources = [
            Source(one.part, one.number, one.lane, topic.id, topic.durability)
            for topic in topics
            for one in topic.partitions
        ]
        return Subscription(
            id=entry.id,
            name=entry.name,
            version=entry.version,
            settings=document.settings,
            topics=tuple(topics),
            sources=tuple(sources),
            queue=document.queue,
            created_at=entry.created_at,
            owner=entry.owner,
            rules=(rules := _rules(document.settings)),
            cursors=(cursors := tuple((source.part, entry.id) for source in sources)),
            places={cursor[0]: {cursor: Place(cursor, entry.version, rules)} for cursor in cursors},
            largest_bytes=max((topic.settings.max_message_bytes for topic in topics), default=0),
        )


def _rules(settings: SubscriptionSettings) -> Rules:
    return Rules(
        order=settings.order,
        fair=settings.fair,
        at_most_once=settings.delivery == "at-most-once",
        max_receives=settings.max_receives,
        bury_expired=settings.dead_letter_expired,
        max_in_flight=settings.max_in_flight,
        look_ahead=settings.look_ahead,
    )


def _partitions(entries: Sequence[Entry], topic: int) -> list[Partition]:
    found = []
    for entry in entries:
        if entry.parent == topic:
            document = msgspec.json.decode(entry.document, type=PartitionDocument)
            found.append(Partition(entry.id, document.number, document.lane))
    return found
