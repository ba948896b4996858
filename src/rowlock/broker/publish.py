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


class Prepared(NamedTuple):
    """A message that was checked."""

    number: int
    """Its index in its caller's batch."""
    body: bytes
    key: str | None
    attributes: bytes | None
    size: int
    expires_at: int | None
    due_at: int | None
    deduplication_id: str | None


def prepare(
    topic: Topic, messages: Sequence[Message], now: int
) -> tuple[list[Prepared], list[tuple[int, RowlockError]]]:
    """Check every message, before anything is stored: the good ones, and what is wrong with the others."""
    good: list[Prepared] = []
    refused: list[tuple[int, RowlockError]] = []
    settings = topic.settings
    most = settings.max_message_bytes
    default_expiry = None if settings.expires_in is None else now + int(settings.expires_in * 1000)
    default_due = now + int(settings.delay * 1000) if settings.delay else None
    plain = not topic.keyed and default_due is None
    for index, message in enumerate(messages):
        try:
            body = message.body
            if (
                plain
                and type(body) is bytes
                and message.attributes is None
                and message.key is None
                and message.expires_in is None
                and message.delay is None
                and message.due_at is None
                and message.deduplication_id is None
                and len(body) <= most
            ):
                good.append(Prepared(index, body, None, None, len(body), default_expiry, None, None))
            else:
                good.append(_prepare(topic, index, message, now, default_expiry, default_due))
        except RowlockError as error:
            refused.append((index, error))
        except AttributeError:
            refused.append((index, InvalidArgument(f"{message!r:.120} is not a Message.")))
    return good, refused


def _prepare(
    topic: Topic, index: int, message: Message, now: int, default_expiry: int | None, default_due: int | None
) -> Prepared:
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
    return Prepared(index, body, key, packed, size, expires_at, due, message.deduplication_id)


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


def place(topic: Topic, good: Sequence[Prepared]) -> dict[Partition, list[Prepared]]:
    """Which partition takes which messages; those without a key stay together, in one after the other."""
    if not good:
        return {}
    if len(topic.partitions) == 1:
        return {topic.partitions[0]: list(good)}
    turn = topic.partitions[time.monotonic_ns() // 1000 % len(topic.partitions)]
    placed: dict[Partition, list[Prepared]] = {}
    for one in good:
        partition = turn if one.key is None else partition_of(topic, one.key)
        placed.setdefault(partition, []).append(one)
    return placed


class Publish(Work):
    """Append messages to partitions of one topic in one lane. The result: what became of each, with its index."""

    verb = "publish"
    rank = 0
    grows = True

    def __init__(self, topic: Topic, placed: dict[Partition, list[Prepared]], now: int):
        super().__init__()
        self._topic = topic
        self._placed = placed
        self._accepted_at = now
        if len(placed) == 1:
            self.parts = topic.appends[next(iter(placed)).part]
        else:
            self.parts = {partition.part: topic.version for partition in placed}
        self.messages = sum(len(entries) for entries in placed.values())
        self.bytes = sum(entry.size for entries in placed.values() for entry in entries)
        self.numbers = [entry.number for entries in placed.values() for entry in entries]
        self._ids = {partition: ids.message_ids(len(entries)) for partition, entries in placed.items()}
        self.deduplicates = any(entry.deduplication_id for entries in placed.values() for entry in entries)

    def deduplication_keys(self) -> list[DeduplicationKey]:
        if not self.deduplicates:
            return []
        return [
            (partition.part, bucket, "", entry.deduplication_id)
            for partition, entries in self._placed.items()
            for entry in entries
            if entry.deduplication_id
            for bucket in self._buckets()
        ]

    def _buckets(self) -> range:
        window = int(self._topic.settings.deduplication_window * 1000)
        return range((self._accepted_at - window) // _BUCKET_MS, self._accepted_at // _BUCKET_MS + 2)

    def decide(self, draft: Draft) -> list[tuple[int, Published]]:
        results: list[tuple[int, Published]] = []
        for partition, placed in self._placed.items():
            entries, message_ids, duplicates = placed, self._ids[partition], list[Prepared]()
            if self.deduplicates:
                entries, message_ids, duplicates = self._unseen(draft, partition.part, entries, message_ids)
            if self._topic.ordered or all(entry.due_at is None for entry in entries):
                self._append(draft, partition, entries, message_ids, results)
            else:
                self._append_or_schedule(draft, partition, entries, message_ids, results)
            results += [(entry.number, self._stored_before(draft, partition, entry)) for entry in duplicates]
        return results

    def _append(
        self,
        draft: Draft,
        partition: Partition,
        entries: Sequence[Prepared],
        message_ids: list[bytes],
        results: list[tuple[int, Published]],
    ) -> None:
        if not entries:
            return
        start = draft.append(partition.part, batch_of(entries, message_ids))
        number = partition.number
        results += [
            (entry.number, Published(id_.hex(), number, seq))
            for seq, (entry, id_) in enumerate(zip(entries, message_ids, strict=True), start)
        ]
        if self.deduplicates:
            for seq, (entry, id_) in enumerate(zip(entries, message_ids, strict=True), start):
                self._remember(draft, partition, entry, id_, seq)

    def _append_or_schedule(
        self,
        draft: Draft,
        partition: Partition,
        entries: Sequence[Prepared],
        message_ids: list[bytes],
        results: list[tuple[int, Published]],
    ) -> None:
        """Delayed messages wait outside the log until they are due."""
        now_entries = [(entry, id_) for entry, id_ in zip(entries, message_ids, strict=True) if entry.due_at is None]
        self._append(draft, partition, [entry for entry, _ in now_entries], [id_ for _, id_ in now_entries], results)
        later = [(entry, id_) for entry, id_ in zip(entries, message_ids, strict=True) if entry.due_at is not None]
        for entry, id_ in later:
            assert entry.due_at is not None
            draft.changes.scheduled.append(
                Scheduled(
                    partition.part,
                    entry.due_at,
                    id_,
                    self._accepted_at,
                    entry.expires_at,
                    entry.key,
                    entry.attributes,
                    entry.size,
                    entry.body,
                )
            )
            results.append((entry.number, Published(id_.hex(), partition.number, None)))
            self._remember(draft, partition, entry, id_, 0)
        draft.changes.delays.append(Delay(partition.part, len(later)))

    def _unseen(
        self, draft: Draft, part: int, entries: Sequence[Prepared], message_ids: list[bytes]
    ) -> tuple[list[Prepared], list[bytes], list[Prepared]]:
        """Those that were not stored before within the window, with their ids; and the others."""
        fresh: list[Prepared] = []
        fresh_ids: list[bytes] = []
        duplicates: list[Prepared] = []
        mine: set[str] = set()
        since = self._accepted_at - int(self._topic.settings.deduplication_window * 1000)
        for entry, id_ in zip(entries, message_ids, strict=True):
            name = entry.deduplication_id
            known = None if name is None else draft.seen.get((part, "", name))
            if name in mine or (known is not None and known.at > since):
                duplicates.append(entry)
                continue
            if name is not None:
                mine.add(name)
            fresh.append(entry)
            fresh_ids.append(id_)
        return fresh, fresh_ids, duplicates

    def _stored_before(self, draft: Draft, partition: Partition, entry: Prepared) -> Published:
        row = draft.seen[partition.part, "", entry.deduplication_id or ""]
        return Published(row.message.hex(), partition.number, row.seq or None, duplicate=True)

    def _remember(self, draft: Draft, partition: Partition, entry: Prepared, id_: bytes, seq: int) -> None:
        if entry.deduplication_id:
            bucket = self._accepted_at // _BUCKET_MS
            row = Deduplicated(partition.part, bucket, "", entry.deduplication_id, id_, seq, self._accepted_at)
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
        good = [one for one in good if self.published[one.number] is None and one.number not in self._failed]
        placed = place(topic, good)
        works = []
        for lane in sorted({partition.lane for partition in placed}):
            mine = {partition: entries for partition, entries in placed.items() if partition.lane == lane}
            work = Publish(topic, mine, now)
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


def batch_of(entries: Sequence[Prepared], message_ids: list[bytes]) -> Batch:
    """Prepared messages by column."""
    columns: tuple[Any, ...] = tuple(zip(*entries, strict=True))
    _, bodies, keys, attributes, sizes, expires_at, due_at, _ = columns
    return Batch(
        ids=message_ids,
        bodies=list(bodies),
        sizes=list(sizes),
        keys=_some(keys),
        attributes=_some(attributes),
        expires_at=_some(expires_at),
        due_at=_some(due_at),
        origins=[],
        accepted_at=[],
    )


def _some(column: tuple[Any, ...]) -> list[Any]:
    """The column, or nothing where all of it is None."""
    return [] if column.count(None) == len(column) else list(column)
