"""What callers pass in and get back: messages, and what is told of topics, subscriptions and tasks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from rowlock.ids import Receipt

Attributes = dict[str, str | int | float | bool | bytes]


class Message(Struct, kw_only=False, gc=False):
    """A message to publish."""

    body: bytes
    key: str | None = None
    """Messages of one key stay in order where a subscription is ordered, and go to one partition."""
    attributes: Attributes | None = None
    expires_in: float | None = None
    """Seconds after which it is never handed out any more."""
    delay: float | None = None
    """Seconds before it may be handed out."""
    due_at: datetime | None = None
    """When it may be handed out, instead of a delay."""
    deduplication_id: str | None = None
    """A second message with this id within the topic's deduplication window is not stored again."""


class Published(Struct, frozen=True, gc=False):
    """A message that is stored."""

    id: str
    partition: int
    sequence: int | None
    """None while it waits for its due time outside the log."""
    duplicate: bool = False
    """It had been stored before, under the same deduplication id."""


class Origin(Struct, frozen=True):
    """Where a dead-lettered message came from."""

    source: str
    """The subscription (for a queue: its name) that gave it up."""
    topic: str
    partition: int
    sequence: int
    reason: str
    """`receives`: received as often as allowed; `expired`: expired unread."""
    receives: int
    at: int
    """Milliseconds since 1970."""


class Stored(Struct, frozen=True, gc=False):
    """A message in the log. The order of its fields is the order of columns in every statement that reads messages."""

    part: int
    seq: int
    id: bytes
    """16 random bytes."""
    accepted_at: int
    published_at: int
    expires_at: int | None
    due_at: int | None
    """An ordered subscription holds the message back until then; None: not delayed."""
    key: str | None
    attributes: bytes | None
    """msgpack."""
    origin: bytes | None
    """msgpack; where a dead-lettered message came from, and why."""
    size: int
    """Bytes of body, attributes and key together."""
    body: bytes


class Claimed(Struct, frozen=True, gc=False):
    """A message that was handed out."""

    message: Stored
    receives: int
    first_received_at: int
    sub: int
    claim: int

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.sub, self.message.part, self.message.seq, self.claim)

    @property
    def attributes(self) -> Attributes:
        return unpack_attributes(self.message.attributes)

    @property
    def origin(self) -> Origin | None:
        packed = self.message.origin
        return None if packed is None else msgspec.msgpack.decode(packed, type=Origin)


def unpack_attributes(packed: bytes | None) -> Attributes:
    return {} if packed is None else msgspec.msgpack.decode(packed)


class Depth(Struct, frozen=True):
    """How much a subscription has before it, by arithmetic."""

    ready: int
    """Messages that could be claimed now (those that a busy key keeps back included)."""
    in_flight: int
    delayed: int
    """Waiting for a time: scheduled, or for a retry."""
    dying: int
    """About to be dead-lettered."""
    oldest_age: float | None
    """Seconds since the oldest message that is not done was published; None when there is none."""

    @property
    def total(self) -> int:
        return self.ready + self.in_flight + self.delayed + self.dying


class Description(Struct, frozen=True):
    """What `show` tells of a topic, a subscription or a queue."""

    name: str
    kind: str
    id: int
    created_at: datetime
    owner: str
    settings: dict[str, Any]
    topics: list[str] = []
    partitions: list[dict[str, Any]] = []
    depth: Depth | None = None


class Redrive(Struct, frozen=True):
    """A task that moves messages from one queue to another, or back to where they came from."""

    id: int
    source: str
    destination: str | None
    """None: each message goes back to the topic that it came from."""
    state: str
    """running, completed, cancelled or failed."""
    moved: int
    to_move: int
    """How many there were when it started."""
    rate: float | None
    """Messages per second; None: as fast as it goes."""
    started_at: datetime
    problem: str | None = None
