"""The library: a broker inside your process, on your database.

async with rowlock.open("sqlite:///orders.db") as broker:
    await broker.create_queue("orders")
    await broker.publish("orders", [Message(b"...")])
    for message in await broker.claim("orders", wait=20):
        await message.settle()
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from rowlock import limits
from rowlock.broker.broker import Broker as Engine
from rowlock.broker.describe import Describe
from rowlock.broker.redriving import Redriving
from rowlock.clock import moment
from rowlock.delivery.delivery import Delivery
from rowlock.errors import InvalidArgument, PublishRefused, StaleReceipt
from rowlock.ids import Receipt
from rowlock.ledger.rules import Verdict
from rowlock.model import Attributes, Claimed, Depth, Description, Message, Origin, Published, Redrive
from rowlock.settings import check_count, check_list, check_seconds
from rowlock.store import connect


class ClaimedMessage:
    """A message that you hold until it is settled, released, or its time runs out."""

    __slots__ = ("_broker", "_claimed")

    def __init__(self, broker: Broker, claimed: Claimed):
        self._broker = broker
        self._claimed = claimed

    @property
    def id(self) -> str:
        return self._claimed.message.id.hex()

    @property
    def body(self) -> bytes:
        return self._claimed.message.body

    @property
    def key(self) -> str | None:
        return self._claimed.message.key

    @property
    def attributes(self) -> Attributes:
        return self._claimed.attributes

    @property
    def receives(self) -> int:
        """How often it was handed out, this time included."""
        return self._claimed.receives

    @property
    def sequence(self) -> int:
        return self._claimed.message.seq

    @property
    def accepted_at(self) -> datetime:
        return moment(self._claimed.message.accepted_at)

    @property
    def published_at(self) -> datetime:
        return moment(self._claimed.message.published_at)

    @property
    def expires_at(self) -> datetime | None:
        expires_at = self._claimed.message.expires_at
        return None if expires_at is None else moment(expires_at)

    @property
    def origin(self) -> Origin | None:
        """Where a dead-lettered message came from, and why."""
        return self._claimed.origin

    @property
    def receipt(self) -> str:
        """Proof that you hold it, as text: for another process to settle it with."""
        return self._broker._engine.receipt(self._claimed)

    async def settle(self) -> None:
        """It is done: it is never handed out again. Doing it twice is no error."""
        _check(await self._broker._engine.settle([_receipt(self)]), [self])

    async def extend(self, seconds: float) -> None:
        """Hold it for so long from now."""
        _check(await self._broker._engine.extend([_receipt(self)], seconds), [self], holding=True)

    async def release(self, delay: float | None = None) -> None:
        """Give it up, to be handed out again after the delay (None: as the subscription's backoff says)."""
        _check(await self._broker._engine.release([_receipt(self)], delay), [self], holding=True)

    def __repr__(self) -> str:
        return f"<ClaimedMessage {self.id} sequence={self.sequence} receives={self.receives}>"


class Broker:
    """All of Rowlock, on one database. Open it with `rowlock.open`."""

    def __init__(
        self,
        url: str,
        *,
        lanes: int | None = None,
        create_on_use: bool = False,
        owner: str | None = None,
        patience: float = limits.PATIENCE_SECONDS,
    ):
        if lanes is not None:
            check_count("lanes", lanes, 1, limits.LANES_COUNT)
        check_seconds("patience", patience, limits.PATIENCE_MAX_SECONDS)
        if not isinstance(create_on_use, bool):
            raise InvalidArgument(f"create_on_use is {create_on_use!r:.80}: it must be True or False.")
        self._lanes = lanes
        self._engine = Engine(connect(url), owner=_owner(owner), create_on_use=create_on_use, patience=patience)
        self._delivery = Delivery(self._engine)
        self._describe = Describe(self._engine)
        self._redriving = Redriving(self._engine)

    async def open(self) -> Broker:
        await self._engine.open(self._lanes)
        self._delivery.start()
        self._redriving.start()
        return self

    async def close(self) -> None:
        await self._redriving.close()
        await self._delivery.close()
        await self._engine.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def lanes(self) -> int:
        """How many lanes the database has."""
        return self._engine.store.lanes

    # Queues, topics, subscriptions

    async def create_queue(self, name: str, **settings: Any) -> None:
        """Create a queue: a topic and a subscription of one name. It may exist with the same settings."""
        await self._engine.administer.create_queue(name, settings)

    async def create_topic(self, name: str, **settings: Any) -> None:
        """Create a topic. It may exist with the same settings."""
        await self._engine.administer.create_topic(name, settings)

    async def create_subscription(
        self, name: str, topics: str | Sequence[str], *, start: str = "latest", **settings: Any
    ) -> None:
        """Create a subscription on one or several topics, from their latest or their earliest message on."""
        topics = [topics] if isinstance(topics, str) else check_list("topics", topics)
        await self._engine.administer.create_subscription(name, topics, settings, start=start)

    async def create_reader(self, name: str, topics: str | Sequence[str], *, start: str = "earliest") -> None:
        """Create a reader: a named position in every partition, moved by `commit`."""
        await self.create_subscription(name, topics, start=start, reader=True)

    async def alter_queue(self, name: str, **settings: Any) -> None:
        """Change settings of a queue; the others stay as they are."""
        await self._engine.administer.alter(name, "queue", settings)

    async def alter_topic(self, name: str, **settings: Any) -> None:
        await self._engine.administer.alter(name, "topic", settings)

    async def alter_subscription(self, name: str, **settings: Any) -> None:
        await self._engine.administer.alter(name, "subscription", settings)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue and its messages. The rows go in the background, in small steps."""
        await self._engine.administer.delete_queue(name)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic that no subscription reads any more."""
        await self._engine.administer.delete_topic(name)

    async def delete_subscription(self, name: str) -> None:
        await self._engine.administer.delete_subscription(name)

    async def queues(self, prefix: str = "") -> list[Description]:
        return await self._describe.every("queue", prefix)

    async def topics(self, prefix: str = "") -> list[Description]:
        return await self._describe.every("topic", prefix)

    async def subscriptions(self, prefix: str = "") -> list[Description]:
        return await self._describe.every("subscription", prefix)

    async def show_queue(self, name: str) -> Description:
        """Settings, creation time, owner, and how much there is."""
        return await self._describe.show("queue", name)

    async def show_topic(self, name: str) -> Description:
        return await self._describe.show("topic", name)

    async def show_subscription(self, name: str) -> Description:
        return await self._describe.show("subscription", name)

    async def depth(self, name: str) -> Depth:
        """How many messages a queue or subscription has ready, in flight, and delayed; by arithmetic."""
        return await self._describe.depth(name)

    # Messages

    async def publish(self, name: str, messages: Iterable[Message | bytes] | Message | bytes) -> list[Published]:
        """Store messages in a topic or queue, durably, before this returns.

        Where some are refused, the others are stored all the same, and PublishRefused says which are which.
        """
        batch = [messages] if isinstance(messages, (Message, bytes)) else check_list("messages", messages)
        published, refused = await self._engine.publish(name, [_message(one) for one in batch])
        if refused:
            raise PublishRefused(refused, published)
        return [one for one in published if one is not None]

    async def claim(
        self, name: str, max_messages: int = 1, *, visibility_timeout: float | None = None, wait: float = 0
    ) -> list[ClaimedMessage]:
        """Take up to so many messages from a queue or subscription; each is yours until its visibility timeout ends.

        Where there is none, wait for up to `wait` seconds (20 at the most) for the first.
        """
        claimed = await self._delivery.claim(name, max_messages, visibility_timeout=visibility_timeout, wait=wait)
        return [ClaimedMessage(self, one) for one in claimed]

    async def settle(self, messages: Iterable[ClaimedMessage | str]) -> None:
        """Settle many, by message or by receipt. Where some are no longer yours, StaleReceipt says which."""
        batch = check_list("messages", messages)
        _check(await self._engine.settle(self._receipts(batch)), batch)

    async def extend(self, messages: Iterable[ClaimedMessage | str], seconds: float) -> None:
        batch = check_list("messages", messages)
        _check(await self._engine.extend(self._receipts(batch), seconds), batch, holding=True)

    async def release(self, messages: Iterable[ClaimedMessage | str], delay: float | None = None) -> None:
        batch = check_list("messages", messages)
        _check(await self._engine.release(self._receipts(batch), delay), batch, holding=True)

    def _receipts(self, batch: Sequence[ClaimedMessage | str]) -> list[Receipt]:
        return [_receipt(one) if isinstance(one, ClaimedMessage) else self._engine.unseal(one) for one in batch]

    # Moving about

    async def seek(self, name: str, to: str | int | datetime, *, partition: int | None = None) -> dict[int, int]:
        """Start a subscription again from 'earliest', 'latest', a time, or a sequence. Every hold is dropped.

        Returns, by partition, the next sequence.
        """
        return await self._engine.seek(name, _place(to), partition=partition)

    async def commit(self, name: str, sequence: int, *, partition: int = 0) -> None:
        """Move a reader: everything below the sequence has been read."""
        check_count("sequence", sequence, 0, limits.SEQUENCE_MAX)
        check_count("partition", partition, 0, limits.PARTITIONS_COUNT - 1)
        subscription = await self._engine.catalog.subscription(name)
        if not subscription.settings.reader:
            raise InvalidArgument(f"{name!r} is not a reader: claim from it, or seek.")
        await self._engine.seek(name, sequence, partition=partition)

    async def purge(self, name: str) -> None:
        """Forget every message that is in a queue now."""
        await self._engine.purge(name)

    async def redrive(self, source: str, destination: str | None = None, *, rate: float | None = None) -> Redrive:
        """Begin to move a dead-letter queue's messages back to where they came from, or to another queue."""
        return await self._redriving.begin(source, destination, rate)

    async def redrives(self, source: str | None = None) -> list[Redrive]:
        """Redrives, the newest first."""
        return await self._redriving.tasks(source)

    async def cancel_redrive(self, task: int) -> Redrive:
        """Stop a redrive; what it has moved stays moved."""
        return await self._redriving.cancel(task)


def open(
    url: str,
    *,
    lanes: int | None = None,
    create_on_use: bool = False,
    owner: str | None = None,
    patience: float = limits.PATIENCE_SECONDS,
) -> Broker:
    """A broker on the database at that URL: `sqlite:///file.db`, `postgresql://...` or `mysql://...`.

    `create_on_use` creates queues when they are first used. `patience` is how many seconds calls wait for a database
    that went away, before they raise Unavailable.
    """
    return Broker(url, lanes=lanes, create_on_use=create_on_use, owner=owner, patience=patience)


def _message(given: Message | bytes) -> Message:
    return Message(given) if isinstance(given, bytes) else given


def _receipt(message: ClaimedMessage) -> Receipt:
    return message._claimed.receipt


def _check(verdicts: Sequence[Verdict], batch: Sequence[ClaimedMessage | str], *, holding: bool = False) -> None:
    """Settling what is settled is no error; holding on to it is."""
    bad = (Verdict.STALE, Verdict.GONE) if holding else (Verdict.STALE,)
    stale = [one for verdict, one in zip(verdicts, batch, strict=True) if verdict in bad]
    if stale:
        raise StaleReceipt(
            f"{len(stale)} of {len(batch)} receipts are not valid any more (the message was settled, handed out again, "
            f"or its hold ran out); the first is {stale[0]!r:.120}. The others took effect."
        )


def _place(to: str | int | datetime) -> str | float:
    """Where to seek to; a time as seconds since 1970."""
    if not isinstance(to, datetime):
        return to
    try:
        return to.timestamp()
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{to} is no time to seek to: it is too far away.") from None


def _owner(owner: object) -> str:
    if owner is not None:
        if not isinstance(owner, str) or not 0 < len(owner) <= limits.OWNER_CHARS or not owner.isprintable():
            raise InvalidArgument(
                f"owner is {owner!r:.160}: it must be a text of 1 to {limits.OWNER_CHARS} printable characters."
            )
        return owner
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
