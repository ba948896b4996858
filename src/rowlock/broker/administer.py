"""Administer: create, alter and delete topics, subscriptions and queues; first in the catalog, then in every lane.

Each step is its own transaction and can be done again. An object that is not `ready` is being made: who finds it so
completes it. What was deleted leaves its rows behind, as entries of kind `remains`, for the background to delete in
steps.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from rowlock import limits
from rowlock.broker.catalog import (
    Catalog,
    Partition,
    PartitionDocument,
    SubscriptionDocument,
    Topic,
    TopicDocument,
)
from rowlock.broker.writer import Writer
from rowlock.errors import AlreadyExists, InUse, InvalidArgument, NotFound, Unavailable
from rowlock.ids import stamp
from rowlock.ledger.page import EMPTY, SHIFT
from rowlock.settings import (
    SubscriptionSettings,
    TopicSettings,
    check_name,
    differences,
    subscription_settings,
    topic_settings,
)
from rowlock.store.faults import Contended, Lost
from rowlock.store.port import (
    Changes,
    Control,
    Durability,
    Entry,
    Lane,
    PageRow,
    PageWrite,
    PartitionRow,
    Scope,
    Store,
    View,
)

TOPIC_FIELDS = frozenset(TopicSettings.__struct_fields__)
SUBSCRIPTION_FIELDS = frozenset(SubscriptionSettings.__struct_fields__)
TRIES = 50
WRITER_TRIES = 3
"""So often a change may be contended before its writer's row is taken to be gone (it is cleared away after a day)."""

Decide = Callable[[View, Changes], None]


class RemainsDocument(msgspec.Struct):
    """Rows that a deleted partition or ledger left behind in a lane."""

    lane: int
    part: int
    sub: int | None


class Administer:
    """All changes to the catalog."""

    def __init__(self, store: Store, catalog: Catalog, owner: str):
        self._store = store
        self._catalog = catalog
        self._owner = owner
        self._lanes: dict[int, Lane] = {}
        self._writers: dict[int, Writer] = {}
        self._busy = asyncio.Lock()

    @property
    def _control(self) -> Control:
        return self._store.control

    async def close(self) -> None:
        for lane in self._lanes.values():
            await lane.close()
        self._lanes.clear()

    # Create

    async def create_topic(self, name: str, values: dict[str, Any], *, queue: bool = False) -> Topic:
        check_name(name, "topic's name")
        settings = topic_settings(values)
        existing = await self._control.find("topic", [name])
        if existing:
            document = msgspec.json.decode(existing[0].document, type=TopicDocument)
            _same(f"The topic {name!r}", _as_asked(document, settings), settings)
            await self.complete_topic(existing[0])
            return await self._fresh_topic(name)
        if settings.durability == "replicated":
            await (await self._store.lane(0, Durability.REPLICATED)).close()
        first = await self._control.allocate(1 + settings.partitions)
        now = await self._control.clock()
        document = TopicDocument(settings=settings, queue=queue)
        topic = Entry("topic", first, name, _first_version(), _json(document), now, self._owner)
        partitions = await self._new_partitions(first, range(settings.partitions), first + 1, now)
        if not await self._control.apply(inserts=[topic, *partitions]):
            return await self.create_topic(name, values, queue=queue)
        await self.complete_topic(topic)
        return await self._fresh_topic(name)

    async def _new_partitions(self, topic: int, numbers: range, first_id: int, now: int) -> list[Entry]:
        """Entries for new partitions, in the lanes that have the fewest."""
        counts = dict.fromkeys(range(self._store.lanes), 0)
        if self._store.lanes > 1:
            after = ""
            while entries := await self._control.list("partition", after=after, limit=10_000):
                after = entries[-1].name
                for entry in entries:
                    lane = msgspec.json.decode(entry.document, type=PartitionDocument).lane
                    counts[lane] = counts.get(lane, 0) + 1
        made = []
        for id_, number in enumerate(numbers, first_id):
            lane = min(counts, key=lambda one: (counts[one], one))
            counts[lane] += 1
            document = PartitionDocument(lane=lane, number=number)
            made.append(Entry("partition", id_, f"{topic}/{number}", 1, _json(document), now, self._owner, topic))
        return made

    async def create_subscription(
        self, name: str, topics: Sequence[str], values: dict[str, Any], *, start: str = "latest", queue: bool = False
    ) -> None:
        check_name(name, "subscription's name")
        settings = subscription_settings(values)
        if start not in ("latest", "earliest"):
            raise InvalidArgument(f"start is {start!r}: it must be 'latest' or 'earliest'.")
        if not topics:
            raise InvalidArgument("A subscription needs at least one topic.")
        if len(topics) > limits.SOURCES_COUNT:
            raise InvalidArgument(
                f"{len(topics)} topics are too many for one subscription: {limits.SOURCES_COUNT} are allowed."
            )
        for topic in topics:
            check_name(topic, "topic's name")
        found = [await self._fresh_topic(topic) for topic in dict.fromkeys(topics)]
        ids = [topic.id for topic in found]
        existing = await self._control.find("subscription", [name])
        if existing:
            document = msgspec.json.decode(existing[0].document, type=SubscriptionDocument)
            _same(f"The subscription {name!r}", document.settings, settings)
            if set(document.topics) != set(ids):
                raise AlreadyExists(f"The subscription {name!r} exists, on other topics.")
            if document.start != start:
                raise AlreadyExists(f"The subscription {name!r} exists, and started from its {document.start} message.")
            await self.complete_subscription(existing[0])
            return
        self._check_order(settings, found)
        await self._ensure_dead_letter(settings, found)
        id_ = await self._control.allocate(1 + len(ids))
        now = await self._control.clock()
        document = SubscriptionDocument(settings=settings, topics=ids, start=start, queue=queue)
        entry = Entry("subscription", id_, name, _first_version(), _json(document), now, self._owner)
        sources = [
            Entry("source", id_ + number, f"{id_}/{topic}", 1, "{}", now, self._owner, topic)
            for number, topic in enumerate(ids, 1)
        ]
        again = await self._looked_at_again(ids, settings)
        if not await self._control.apply(inserts=[entry, *sources], replaces=again):
            await self.create_subscription(name, topics, values, start=start, queue=queue)
            return
        await self.complete_subscription(entry)
        await self._complete_topics(again)

    async def create_queue(self, name: str, values: dict[str, Any]) -> None:
        """A topic and a subscription of one name."""
        check_name(name, "queue's name")
        ours, theirs = split_settings(values)
        topic_settings(ours), subscription_settings(theirs)
        existing = await self._control.find("topic", [name])
        if not existing and not await self._delete_half_a_queue(name):
            raise AlreadyExists(f"{name!r} is a subscription already, and so cannot be a queue.")
        topic = await self.create_topic(name, ours, queue=True)
        if not topic.queue:
            raise AlreadyExists(f"{name!r} is a topic already, and not a queue.")
        await self.create_subscription(name, [name], theirs, start="earliest", queue=True)

    async def _looked_at_again(self, topics: Sequence[int], *settings: SubscriptionSettings) -> list[Entry]:
        """Topics' next versions, where an ordered subscription comes, goes or changes: what a broker may append depends
        on that, so every broker must find the lock rows changed and look at the topic again."""
        if all(one.order == "none" for one in settings):
            return []
        changed = []
        for entry in await self._control.get(topics):
            document = msgspec.json.decode(entry.document, type=TopicDocument)
            document.ready = False
            changed.append(_next(entry, document))
        return changed

    async def _complete_topics(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            await self.complete_topic(entry)

    def _check_order(self, settings: SubscriptionSettings, topics: Sequence[Topic]) -> None:
        if settings.order == "topic":
            for topic in topics:
                _one_partition(topic.name, len(topic.partitions))

    async def _ensure_dead_letter(self, settings: SubscriptionSettings, topics: Sequence[Topic]) -> None:
        """The dead-letter queue exists, and has a partition in every lane of its sources."""
        name = settings.dead_letter
        if name is None:
            return
        if name in [topic.name for topic in topics]:
            raise InvalidArgument(f"{name!r} cannot take its own dead letters.")
        if not await self._control.find("topic", [name]):
            largest = max(topic.settings.max_message_bytes for topic in topics)
            await self.create_queue(name, {"max_message_bytes": largest})
        target = await self._fresh_topic(name)
        missing = {one.lane for topic in topics for one in topic.partitions} - {one.lane for one in target.partitions}
        if missing:
            if target.ordered:
                raise InvalidArgument(
                    f"{name!r} is ordered and has no partition in lane {min(missing)}, where {topics[0].name!r} lies: "
                    "messages of one key would come from two partitions. Take a dead-letter queue without an order."
                )
            await self._add_partitions(target, sorted(missing))

    async def _add_partitions(self, topic: Topic, lanes: Sequence[int]) -> None:
        """More partitions, in these lanes."""
        now = await self._control.clock()
        first = await self._control.allocate(len(lanes))
        start = max(one.number for one in topic.partitions) + 1
        made = [
            Entry(
                "partition",
                first + at,
                f"{topic.id}/{start + at}",
                1,
                _json(PartitionDocument(lane=lane, number=start + at)),
                now,
                self._owner,
                topic.id,
            )
            for at, lane in enumerate(lanes)
        ]
        entry = (await self._control.get([topic.id]))[0]
        document = msgspec.json.decode(entry.document, type=TopicDocument)
        document.ready = False
        document.settings = msgspec.structs.replace(document.settings, partitions=start + len(lanes))
        document.added += len(lanes)
        changed = _next(entry, document)
        if not await self._control.apply(inserts=made, replaces=[changed]):
            raise Contended(f"{topic.name!r} is being changed by somebody else.")
        await self.complete_topic(changed)

    # Complete what was begun

    async def complete_topic(self, entry: Entry) -> None:
        """Make the lanes what the catalog says of a topic."""
        document = msgspec.json.decode(entry.document, type=TopicDocument)
        if document.ready:
            return
        topic = (await self._catalog.topics_of([entry]))[0]
        version = entry.version + 1
        for partition in topic.partitions:
            await self._put_partition(partition, version)
        document.ready = True
        done = await self._control.apply(replaces=[_next(entry, document)])
        self._catalog.forget(entry.name)
        if not done and not await self._control.get([entry.id]):
            for partition in topic.partitions:
                await self._remove_partition(partition)
        for source in await self._control.children("source", [entry.id]):
            for subscription in await self._control.get([int(source.name.split("/")[0])]):
                await self._put_cursors(subscription, [topic], new=True)

    async def complete_subscription(self, entry: Entry) -> None:
        """Make the lanes what the catalog says of a subscription."""
        document = msgspec.json.decode(entry.document, type=SubscriptionDocument)
        if document.ready:
            return
        topics = await self._catalog.topics_of(await self._control.get(document.topics))
        document.ready = True
        changed = _next(entry, document)
        await self._put_cursors(changed, topics)
        await self._control.apply(replaces=[changed])
        self._catalog.forget(entry.name)
        for topic in topics:
            self._catalog.forget(topic.name)

    async def repair(self, name: str) -> None:
        """Lock rows are behind the catalog: a change was begun and not completed. Complete it."""
        for entry in await self._control.find("topic", [name]):
            await self.complete_topic(entry)
            for topic in await self._catalog.topics_of([entry]):
                for partition in topic.partitions:
                    await self._put_partition(partition, entry.version, only_behind=True)
        for entry in await self._control.find("subscription", [name]):
            await self.complete_subscription(entry)
            document = msgspec.json.decode(entry.document, type=SubscriptionDocument)
            if document.ready:
                topics = await self._catalog.topics_of(await self._control.get(document.topics))
                await self._put_cursors(entry, topics, new=True)
        self._catalog.forget(name)

    async def _put_partition(self, partition: Partition, version: int, *, only_behind: bool = False) -> None:
        def decide(view: View, changes: Changes) -> None:
            row = view.partitions.get(partition.part)
            if row is None and not only_behind:
                changes.partitions.append(PartitionRow(partition.part, version, 1, 1))
            elif row is not None and row.version < version:
                changes.partitions.append(PartitionRow(partition.part, version, row.first, row.swept))

        await self._transact(partition.lane, Scope(parts=[partition.part]), decide)

    async def _put_cursors(self, entry: Entry, topics: Sequence[Topic], *, new: bool = False) -> None:
        """New partitions: a subscription that is older than they are reads all of what they hold."""
        document = msgspec.json.decode(entry.document, type=SubscriptionDocument)
        start = "earliest" if new and document.ready else document.start
        for topic in topics:
            for partition in topic.partitions:
                await self._put_cursor(partition, entry.id, entry.version, start)
        if not await self._control.get([entry.id]):
            # It was deleted meanwhile: a cursor that nobody knows would hold back retention for ever.
            for topic in topics:
                for partition in topic.partitions:
                    await self._remove_cursor(partition, entry.id)

    async def _put_cursor(self, partition: Partition, sub: int, version: int, start: str) -> None:
        part = partition.part

        def decide(view: View, changes: Changes) -> None:
            row = view.cursors.get((part, sub))
            if row is not None:
                if row.version < version:
                    changes.cursors.append((part, sub, version))
                return
            place = view.partitions.get(part)
            if place is None:
                return
            frontier = place.last + 1 if start == "latest" else place.first
            data = b"\0" + EMPTY
            head = PageRow(part, sub, frontier >> SHIFT, 0, stamp(), frontier, 0, view.clock, data)
            changes.cursors.append((part, sub, version))
            changes.pages.append(PageWrite(head, 0))

        await self._transact(partition.lane, Scope(parts=[part], cursors=[(part, sub)]), decide)

    # Alter

    async def alter(self, name: str, kind: str, values: dict[str, Any]) -> None:
        """Change settings of a topic, a subscription, or a queue (both)."""
        ours, theirs = split_settings(values) if kind == "queue" else (values, values)
        if kind == "queue" and theirs:
            _, document, _ = await self._altered_subscription(name, theirs)  # Refused before the topic is changed.
            if document.settings.order == "topic":
                _one_partition(name, topic_settings(ours).partitions)
        if kind in ("topic", "queue") and (ours or kind == "topic"):
            await self._alter_topic(name, ours)
        if kind in ("subscription", "queue") and (theirs or kind == "subscription"):
            await self._alter_subscription(name, theirs)

    async def _alter_topic(self, name: str, values: dict[str, Any]) -> None:
        topic = await self._fresh_topic(name)
        entry = (await self._control.get([topic.id]))[0]
        document = msgspec.json.decode(entry.document, type=TopicDocument)
        _known(values, TOPIC_FIELDS)
        settings = topic_settings({**msgspec.structs.asdict(document.settings), **values})
        more = settings.partitions - len(topic.partitions)
        if more < 0:
            raise InvalidArgument(
                f"{name!r} has {len(topic.partitions)} partitions, and cannot have fewer: {settings.partitions} was "
                "asked for."
            )
        if settings.durability != document.settings.durability:
            raise InvalidArgument(
                f"The durability of {name!r} is {document.settings.durability!r}, and cannot be changed."
            )
        if more and topic.ordered:
            for subscription in await self._catalog.subscriptions_of(topic.id):
                if subscription.settings.order == "topic":
                    _one_partition(name, settings.partitions)
            await self._check_empty(topic)
        inserts: list[Entry] = []
        if more:
            first = await self._control.allocate(more)
            numbers = range(len(topic.partitions), settings.partitions)
            inserts = await self._new_partitions(topic.id, numbers, first, await self._control.clock())
        document.settings, document.ready = settings, not more
        changed = _next(entry, document)
        if not await self._control.apply(inserts=inserts, replaces=[changed]):
            await self._alter_topic(name, values)
            return
        if more:
            await self.complete_topic(changed)
        else:
            for partition in topic.partitions:
                await self._put_partition(partition, changed.version)
        self._catalog.forget(name)

    async def _check_empty(self, topic: Topic) -> None:
        for partition in topic.partitions:
            lane = await self._lane(partition.lane)
            for row in await lane.partition_rows([partition.part]):
                if row.last >= row.first or row.waiting:
                    raise InUse(
                        f"{topic.name!r} has an ordered subscription and holds messages: it gains partitions only "
                        "while it is empty."
                    )

    async def _altered_subscription(
        self, name: str, values: dict[str, Any]
    ) -> tuple[Entry, SubscriptionDocument, list[Topic]]:
        """What a subscription would be with these settings; nothing is written."""
        check_name(name)
        entries = await self._control.find("subscription", [name])
        if not entries:
            raise NotFound(f"There is no subscription or queue named {name!r}.")
        document = msgspec.json.decode(entries[0].document, type=SubscriptionDocument)
        _known(values, SUBSCRIPTION_FIELDS)
        settings = subscription_settings({**msgspec.structs.asdict(document.settings), **values})
        topics = await self._catalog.topics_of(await self._control.get(document.topics))
        self._check_order(settings, topics)
        document.settings = settings
        return entries[0], document, topics

    async def _alter_subscription(self, name: str, values: dict[str, Any]) -> None:
        entry, document, topics = await self._altered_subscription(name, values)
        await self._ensure_dead_letter(document.settings, topics)
        changed = _next(entry, document)
        before = msgspec.json.decode(entry.document, type=SubscriptionDocument).settings
        reorders = before.order != document.settings.order
        again = await self._looked_at_again(document.topics, before, document.settings) if reorders else []
        if not await self._control.apply(replaces=[changed, *again]):
            await self._alter_subscription(name, values)
            return
        await self._put_cursors(changed, topics)
        await self._complete_topics(again)
        self._catalog.forget(name)
        for topic in topics:
            self._catalog.forget(topic.name)

    # Delete

    async def delete_subscription(self, name: str) -> None:
        check_name(name)
        entries = await self._control.find("subscription", [name])
        if not entries:
            raise NotFound(f"There is no subscription or queue named {name!r}.")
        entry = entries[0]
        document = msgspec.json.decode(entry.document, type=SubscriptionDocument)
        topics = await self._catalog.topics_of(await self._control.get(document.topics))
        partitions = [one for topic in topics for one in topic.partitions]
        sources = await self._sources_of(entry.id, document.topics)
        remains = await self._remains([(one, entry.id) for one in partitions])
        again = await self._looked_at_again(document.topics, document.settings)
        if not await self._control.apply(inserts=remains, replaces=again, removes=[entry, *sources]):
            await self.delete_subscription(name)
            return
        self._catalog.forget(name)
        for topic in topics:
            self._catalog.forget(topic.name)
        for partition in partitions:
            await self._remove_cursor(partition, entry.id)
        await self._complete_topics(again)

    async def _sources_of(self, sub: int, topics: Sequence[int]) -> list[Entry]:
        return [one for one in await self._control.children("source", topics) if one.name.startswith(f"{sub}/")]

    async def delete_topic(self, name: str) -> None:
        check_name(name)
        entries = await self._control.find("topic", [name])
        if not entries:
            raise NotFound(f"There is no topic or queue named {name!r}.")
        entry = entries[0]
        if sources := await self._control.children("source", [entry.id]):
            readers = await self._control.get([int(source.name.split("/")[0]) for source in sources])
            names = ", ".join(repr(one.name) for one in readers[:5])
            raise InUse(f"The topic {name!r} is read by {len(sources)} subscriptions ({names}): delete these first.")
        topic = (await self._catalog.topics_of([entry]))[0]
        partitions = await self._control.children("partition", [entry.id])
        remains = await self._remains([(one, None) for one in topic.partitions])
        if not await self._control.apply(inserts=remains, removes=[entry, *partitions]):
            await self.delete_topic(name)
            return
        self._catalog.forget(name)
        for partition in topic.partitions:
            await self._remove_partition(partition)

    async def _delete_half_a_queue(self, name: str) -> bool:
        """A queue that was deleted while it was made anew may have left its subscription, without a topic. False: the
        name is that of a subscription in its own right."""
        for entry in await self._control.find("subscription", [name]):
            document = msgspec.json.decode(entry.document, type=SubscriptionDocument)
            if not document.queue or await self._control.get(document.topics):
                return False
            await self.delete_subscription(name)
        return True

    async def delete_queue(self, name: str) -> None:
        try:
            topic = await self._fresh_topic(name)
        except NotFound:
            if not await self._control.find("subscription", [name]) or not await self._delete_half_a_queue(name):
                raise
            return
        if not topic.queue:
            raise NotFound(f"{name!r} is a topic, and not a queue.")
        for source in await self._control.children("source", [topic.id]):
            for reader in await self._control.get([int(source.name.split("/")[0])]):
                if reader.name != name:
                    raise InUse(f"The queue {name!r} is read by the subscription {reader.name!r}: delete that first.")
        await self._check_takes_no_dead_letters(name)
        if await self._control.find("subscription", [name]):
            await self.delete_subscription(name)
        await self.delete_topic(name)

    async def _check_takes_no_dead_letters(self, name: str) -> None:
        after = ""
        while entries := await self._control.list("subscription", after=after):
            after = entries[-1].name
            for entry in entries:
                document = msgspec.json.decode(entry.document, type=SubscriptionDocument)
                if document.settings.dead_letter == name:
                    raise InUse(
                        f"The queue {name!r} takes the dead letters of {entry.name!r}: alter or delete that first."
                    )

    async def _remains(self, left: Sequence[tuple[Partition, int | None]]) -> list[Entry]:
        first = await self._control.allocate(len(left))
        now = await self._control.clock()
        return [
            Entry(
                "remains",
                first + at,
                f"{partition.part}/{sub or ''}",
                1,
                _json(RemainsDocument(partition.lane, partition.part, sub)),
                now,
                self._owner,
            )
            for at, (partition, sub) in enumerate(left)
        ]

    async def _remove_partition(self, partition: Partition) -> None:
        part = partition.part

        def decide(view: View, changes: Changes) -> None:
            changes.removed_partitions.append(part)
            changes.removed_cursors += [cursor for cursor in view.cursors if cursor[0] == part]

        await self._transact(partition.lane, Scope(parts=[part], whole=[part]), decide)

    async def _remove_cursor(self, partition: Partition, sub: int) -> None:
        def decide(view: View, changes: Changes) -> None:
            changes.removed_cursors.append((partition.part, sub))

        await self._transact(partition.lane, Scope(cursors=[(partition.part, sub)]), decide)

    # Transactions in a lane

    async def _lane(self, number: int) -> Lane:
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = await self._store.lane(number, Durability.LOCAL)
            self._writers[number] = Writer()
        return lane

    async def _transact(self, number: int, scope: Scope, decide: Decide) -> None:
        """Lock, decide, write. Every decision here may be made twice, so an unknown outcome is simply tried again."""
        problem: Exception | None = None
        async with self._busy:
            for attempt in range(TRIES):
                try:
                    lane = await self._lane(number)
                    await self._decide(lane, self._writers[number], scope, decide)
                    return
                except Contended as fault:
                    problem = fault
                    if attempt == WRITER_TRIES and number in self._writers:
                        self._writers[number].reset()
                    await asyncio.sleep(random.uniform(0, 0.01) * min(attempt + 1, 10))
                except Lost as fault:
                    problem = fault
                    if broken := self._lanes.pop(number, None):
                        await broken.close()
                    await asyncio.sleep(0.1)
            raise Unavailable(
                f"The change could not be made in time ({problem}); it is completed when it is used or asked for again."
            )

    async def _decide(self, lane: Lane, writer: Writer, scope: Scope, decide: Decide) -> None:
        try:
            view = await lane.lock(scope)
            changes = Changes(turn=writer.turn(), decided_at=view.clock)
            decide(view, changes)
            if not _is_empty(changes):
                await lane.write(changes)
                writer.taken(changes.turn)
                return
        except BaseException as fault:
            if not isinstance(fault, Lost):
                await lane.rollback()
            raise
        await lane.rollback()

    async def _fresh_topic(self, name: str) -> Topic:
        check_name(name)
        self._catalog.forget(name)
        return await self._catalog.topic(name)


def _is_empty(changes: Changes) -> bool:
    return not (
        changes.partitions or changes.cursors or changes.pages or changes.removed_cursors or changes.removed_partitions
    )


def _first_version() -> int:
    """Random: after a failover to a standby that was behind, ids are given again, and what a broker has cached of the
    one that had them before must not fit."""
    return stamp() >> 1


def _next(entry: Entry, document: msgspec.Struct) -> Entry:
    return msgspec.structs.replace(entry, version=entry.version + 1, document=_json(document))


def _json(document: msgspec.Struct) -> str:
    return msgspec.json.encode(document).decode()


def _as_asked(document: TopicDocument, settings: TopicSettings) -> TopicSettings:
    """What there is, less the partitions that nobody asked for, unless somebody does so now."""
    there = document.settings
    if settings.partitions == there.partitions:
        return there
    return msgspec.structs.replace(there, partitions=there.partitions - document.added)


def _one_partition(topic: str, partitions: int) -> None:
    if partitions > 1:
        raise InvalidArgument(f"Order 'topic' needs topics of one partition, and {topic!r} has {partitions}.")


def _same(what: str, old: msgspec.Struct, new: msgspec.Struct) -> None:
    if found := differences(old, new):
        raise AlreadyExists(f"{what} exists with other settings: {'; '.join(found)}.")


def _known(values: dict[str, Any], fields: frozenset[str]) -> None:
    for name in values:
        if name not in fields:
            raise InvalidArgument(f"There is no setting {name!r}: there are {', '.join(sorted(fields))}.")


def split_settings(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A queue's settings: the topic's and the subscription's."""
    _known(values, TOPIC_FIELDS | SUBSCRIPTION_FIELDS)
    return (
        {name: value for name, value in values.items() if name in TOPIC_FIELDS},
        {name: value for name, value in values.items() if name in SUBSCRIPTION_FIELDS},
    )
