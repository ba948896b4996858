"""Publish: messages are checked at the edge, laid out by column, and appended by a cycle."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from rowlock import ids, limits
from rowlock.broker.catalog import Partition, Topic
from rowlock.broker.draft import Batch, Draft
from rowlock.broker.work import DeduplicationKey, Outdated, Work
from rowlock.errors import InvalidArgument, MessageTooLarge, RowlockError
from rowlock.model import Attributes, Message, Published
from rowlock.settings import check_seconds
from rowlock.store.port import Deduplicated, Delay, Scheduled

_BUCKET_MS = limits.DEDUPLICATION_BUCKET_SECONDS * 1000


class _Prepared(NamedTuple):
    """A message that was checked."""

    number: int
    body: bytes
    size: int
    key: str | None
    attributes: bytes | None
    expires_at: int | None
    due_at: int | None
    deduplication_id: str | None


class Prepared(NamedTuple):
    """Messages that were checked, by column; an empty column is all None."""

    numbers: list[int]
    """Their indexes in their caller's batch."""
    bodies: list[bytes]
    sizes: list[int]
    keys: list[str | None]
    attributes: list[bytes | None]
    expires_at: list[int | None]
    due_at: list[int | None]
    deduplication_ids: list[str | None]

    def only(self, at: Sequence[int]) -> Prepared:
        """Those at these places."""
        columns: list[Any] = [[column[place] for place in at] if column else [] for column in self]
        return Prepared(*columns)


def prepare(topic: Topic, messages: Sequence[Message], now: int) -> tuple[Prepared, list[tuple[int, RowlockError]]]:
    """Check every message, before anything is stored: the good ones, and what is wrong with the others."""
    settings = topic.settings
    default_expiry = None if settings.expires_in is None else now + int(settings.expires_in * 1000)
    default_due = now + int(settings.delay * 1000) if settings.delay else None
    if messages and not topic.keyed and default_due is None and all(map(_is_plain, messages)):
        bodies = [message.body for message in messages]
        sizes = list(map(len, bodies))
        if max(sizes) <= settings.max_message_bytes:
            expires_at = [] if default_expiry is None else [default_expiry] * len(bodies)
            return Prepared(list(range(len(bodies))), bodies, sizes, [], [], [*expires_at], [], []), []
    good: list[_Prepared] = []
    refused: list[tuple[int, RowlockError]] = []
    for number, message in enumerate(messages):
        try:
            good.append(_prepare(topic, number, message, now, default_expiry, default_due))
        except RowlockError as error:
            refused.append((number, error))
        except AttributeError:
            refused.append((number, InvalidArgument(f"{message!r:.120} is not a Message.")))
    columns: list[Any] = list(map(list, zip(*good, strict=True))) or [[] for _ in _Prepared._fields]
    return Prepared(*columns[:3], *map(_some, columns[3:])), refused


def _is_plain(message: Message) -> bool:
    """A body and nothing else."""
    return (
        type(message) is Message
        and type(message.body) is bytes
        and message.key is None
        and message.attributes is None
        and message.expires_in is None
        and message.delay is None
        and message.due_at is None
        and message.deduplication_id is None
    )


def _some(column: list[Any]) -> list[Any]:
    """The column, or nothing where all of it is None."""
    return [] if column.count(None) == len(column) else column


def _prepare(
    topic: Topic, number: int, message: Message, now: int, default_expiry: int | None, default_due: int | None
) -> _Prepared:
    if not isinstance(message.body, (bytes, bytearray, memoryview)):
        raise InvalidArgument(f"body is {type(message.body).__name__}: it must be bytes.")
    body = bytes(message.body)
    key = message.key
    if key is not None:
        _check_text("key", key, limits.KEY_CHARS)
    elif topic.keyed:
        raise InvalidArgument(f"{topic.name!r} is ordered by key: every message needs a key.")
    packed, attributes_size = pack_attributes(message.attributes)
    size = len(body) + attributes_size + (len(key.encode()) if key else 0)
    if size > topic.settings.max_message_bytes:
        raise MessageTooLarge(
            f"The message has {size} bytes (body, attributes and key): {topic.name!r} allows "
            f"{topic.settings.max_message_bytes}."
        )
    if message.deduplication_id is not None:
        _check_text("deduplication_id", message.deduplication_id, limits.DEDUPLICATION_ID_CHARS)
    expires_at = default_expiry
    if message.expires_in is not None:
        check_seconds("expires_in", message.expires_in, limits.EXPIRY_MAX_SECONDS)
        asked = now + int(message.expires_in * 1000)
        expires_at = asked if expires_at is None else min(asked, expires_at)
    due = _due(message, now, default_due)
    return _Prepared(number, body, size, key, packed, expires_at, due, message.deduplication_id)


def _due(message: Message, now: int, default: int | None) -> int | None:
    if message.due_at is not None:
        if message.delay is not None:
            raise InvalidArgument("A message has either a delay or a due_at, not both.")
        try:
            due = int(message.due_at.timestamp() * 1000)
        except (AttributeError, ValueError, OverflowError):
            raise InvalidArgument(f"due_at is {message.due_at!r:.80}: it must be a datetime.") from None
        if due > now + limits.DELAY_MAX_SECONDS * 1000:
            raise InvalidArgument(
                f"due_at is {message.due_at}: it may lie {limits.DELAY_MAX_SECONDS} seconds ahead at most."
            )
        return due if due > now else None
    if message.delay is None:
        return default
    check_seconds("delay", message.delay, limits.DELAY_MAX_SECONDS)
    return now + int(message.delay * 1000) if message.delay else None


def _check_text(what: str, text: object, most: int) -> None:
    if not isinstance(text, str) or not 0 < len(text) <= most:
        raise InvalidArgument(f"{what} is {text!r:.160}: it must be a text of 1 to {most} characters.")
    if "\0" in text:
        raise InvalidArgument(f"{what} is {text!r:.160}: it may not contain NUL characters.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} is {text!r:.160}: it is not valid Unicode text.") from None


def pack_attributes(attributes: Attributes | None) -> tuple[bytes | None, int]:
    """Attributes as they are stored, and what they count in bytes: their names and values."""
    if not attributes:
        return None, 0
    if not isinstance(attributes, dict):
        raise InvalidArgument(f"attributes are {attributes!r:.80}: they must be a dict.")
    if len(attributes) > limits.ATTRIBUTES_COUNT:
        raise InvalidArgument(f"There are {len(attributes)} attributes: at most {limits.ATTRIBUTES_COUNT} are allowed.")
    size = 0
    for name, value in attributes.items():
        _check_text("an attribute's name", name, limits.ATTRIBUTE_NAME_CHARS)
        size += len(name.encode()) + _value_bytes(name, value)
    return msgspec.msgpack.encode(attributes), size


def _value_bytes(name: str, value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        try:
            return len(value.encode())
        except UnicodeEncodeError:
            raise InvalidArgument(f"Attribute {name!r} is not valid Unicode text.") from None
    if isinstance(value, bool):
        return 1
    if (isinstance(value, int) and -(2**63) <= value < 2**63) or isinstance(value, float):
        return 8
    raise InvalidArgument(f"Attribute {name!r} is {value!r:.80}: it must be text, bytes, a 64-bit number or a bool.")


def partition_of(topic: Topic, key: str) -> Partition:
    """Keys hash to partitions."""
    return topic.partitions[crc32(key.encode()) % len(topic.partitions)]


def place(topic: Topic, good: Prepared) -> list[tuple[Partition, Prepared]]:
    """Which partition takes which messages; those without a key stay together, in one after the other."""
    if not good.numbers:
        return []
    if len(topic.partitions) == 1:
        return [(topic.partitions[0], good)]
    turn = topic.partitions[time.monotonic_ns() // 1000 % len(topic.partitions)]
    if not good.keys:
        return [(turn, good)]
    placed: dict[Partition, list[int]] = {}
    for at, key in enumerate(good.keys):
        placed.setdefault(turn if key is None else partition_of(topic, key), []).append(at)
    return [(partition, good.only(at)) for partition, at in placed.items()]


class Publish(Work):
    """Append messages to partitions of one topic in one lane. The result: what became of each, with its index."""

    verb = "publish"
    rank = 0
    grows = True

    def __init__(self, topic: Topic, placed: Sequence[tuple[Partition, Prepared]], now: int):
        super().__init__()
        self._topic = topic
        self._placed = [(partition, good, ids.message_ids(len(good.numbers))) for partition, good in placed]
        self._accepted_at = now
        self.parts = topic.appends[placed[0][0].part]
        if len(placed) > 1:
            self.parts = {partition.part: topic.version for partition, _ in placed}
        self.messages = sum([len(good.numbers) for _, good in placed])
        self.bytes = sum([sum(good.sizes) for _, good in placed])
        self.deduplicates = any(good.deduplication_ids for _, good in placed)

    @property
    def numbers(self) -> list[int]:
        """The indexes of its messages in their caller's batch."""
        return [number for _, good, _ in self._placed for number in good.numbers]

    def deduplication_keys(self) -> list[DeduplicationKey]:
        if not self.deduplicates:
            return []
        return [
            (partition.part, bucket, "", name)
            for partition, good, _ in self._placed
            for name in good.deduplication_ids
            if name
            for bucket in self._buckets()
        ]

    def _buckets(self) -> range:
        window = int(self._topic.settings.deduplication_window * 1000)
        return range((self._accepted_at - window) // _BUCKET_MS, self._accepted_at // _BUCKET_MS + 2)

    def decide(self, draft: Draft) -> list[tuple[int, Published]]:
        results: list[tuple[int, Published]] = []
        for partition, placed, placed_ids in self._placed:
            good, message_ids = placed, placed_ids
            duplicates: list[tuple[int, str]] = []
            if good.deduplication_ids:
                fresh, duplicates = self._unseen(draft, partition.part, good)
                good, message_ids = good.only(fresh), [message_ids[at] for at in fresh]
            if good.due_at and not self._topic.ordered:
                good, message_ids = self._schedule(draft, partition, good, message_ids, results)
            if good.numbers:
                self._append(draft, partition, good, message_ids, results)
            for number, name in duplicates:
                row = draft.seen[partition.part, "", name]
                results.append((number, Published(row.message.hex(), partition.number, row.seq or None, True)))
        return results

    def _append(
        self,
        draft: Draft,
        partition: Partition,
        good: Prepared,
        message_ids: list[bytes],
        results: list[tuple[int, Published]],
    ) -> None:
        batch = Batch(
            ids=message_ids,
            bodies=good.bodies,
            sizes=good.sizes,
            keys=good.keys,
            attributes=good.attributes,
            expires_at=good.expires_at,
            due_at=good.due_at,
            origins=[],
            accepted_at=[],
        )
        start = draft.append(partition.part, batch)
        for seq, (number, id_) in enumerate(zip(good.numbers, message_ids, strict=True), start):
            results.append((number, Published(id_.hex(), partition.number, seq)))
        for seq, (name, id_) in enumerate(zip(good.deduplication_ids, message_ids, strict=False), start):
            self._remember(draft, partition, name, id_, seq)

    def _schedule(
        self,
        draft: Draft,
        partition: Partition,
        good: Prepared,
        message_ids: list[bytes],
        results: list[tuple[int, Published]],
    ) -> tuple[Prepared, list[bytes]]:
        """Delayed messages wait outside the log until they are due; returns the others."""
        now: list[int] = []
        for at, due in enumerate(good.due_at):
            if due is None:
                now.append(at)
                continue
            one = good.only([at])
            draft.changes.scheduled.append(
                Scheduled(
                    partition.part,
                    due,
                    message_ids[at],
                    self._accepted_at,
                    one.expires_at[0] if one.expires_at else None,
                    one.keys[0] if one.keys else None,
                    one.attributes[0] if one.attributes else None,
                    one.sizes[0],
                    one.bodies[0],
                )
            )
            results.append((one.numbers[0], Published(message_ids[at].hex(), partition.number, None)))
            for name in one.deduplication_ids:
                self._remember(draft, partition, name, message_ids[at], 0)
        draft.changes.delays.append(Delay(partition.part, len(good.due_at) - len(now)))
        return good.only(now)._replace(due_at=[]), [message_ids[at] for at in now]

    def _unseen(self, draft: Draft, part: int, good: Prepared) -> tuple[list[int], list[tuple[int, str]]]:
        """The places of those that were not stored before within the window; and the others, with their ids."""
        fresh: list[int] = []
        duplicates: list[tuple[int, str]] = []
        mine: set[str] = set()
        since = self._accepted_at - int(self._topic.settings.deduplication_window * 1000)
        for at, name in enumerate(good.deduplication_ids):
            known = None if name is None else draft.seen.get((part, "", name))
            if name is not None and (name in mine or (known is not None and known.at > since)):
                duplicates.append((good.numbers[at], name))
                continue
            if name is not None:
                mine.add(name)
            fresh.append(at)
        return fresh, duplicates

    def _remember(self, draft: Draft, partition: Partition, name: str | None, id_: bytes, seq: int) -> None:
        if name is not None:
            bucket = self._accepted_at // _BUCKET_MS
            row = Deduplicated(partition.part, bucket, "", name, id_, seq, self._accepted_at)
            draft.changes.deduplicated.append(row)
            draft.saw(row)


class Publishing:
    """One caller's batch on its way, in as many works as the topic has lanes for it."""

    def __init__(self, messages: Sequence[Message]):
        self._messages = messages
        self.published: list[Published | None] = [None] * len(messages)
        self.refused: dict[int, RowlockError] = {}
        self._failed: dict[int, RowlockError] = {}
        """Those that a lane did not store, for a reason that is not their own."""

    def works(self, topic: Topic, now: int) -> list[Publish]:
        """What is to be carried: all messages that were neither stored nor refused yet."""
        good, bad = prepare(topic, self._messages, now)
        self.refused = {number: error for number, error in bad if self.published[number] is None} | self._failed
        if self._failed or any(self.published):
            done = self._failed.keys() | {number for number, one in enumerate(self.published) if one is not None}
            good = good.only([at for at, number in enumerate(good.numbers) if number not in done])
        placed = place(topic, good)
        works = []
        for lane in sorted({partition.lane for partition, _ in placed}):
            work = Publish(topic, [one for one in placed if one[0].lane == lane], now)
            work.channel = (lane, topic.durability)
            works.append(work)
        return works

    def answered(self, works: Sequence[Publish], outcomes: Sequence[Any]) -> None:
        """Note what became of each work. One that was made from an outdated catalog is to be made anew."""
        outdated = None
        for work, outcome in zip(works, outcomes, strict=True):
            if isinstance(outcome, Outdated):
                outdated = outcome
            elif isinstance(outcome, RowlockError):
                self._failed |= dict.fromkeys(work.numbers, outcome)
                self.refused |= self._failed
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                for number, one in outcome:
                    self.published[number] = one
        if outdated is not None:
            raise outdated
