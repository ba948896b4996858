"""The library without async, written by tools/generate_blocking.py from embedded.py: `make generate` writes it anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from rowlock import embedded, limits
from rowlock.blocking.loop import LoopThread
from rowlock.model import Attributes, Depth, Description, Message, Origin, Published, Redrive


class ClaimedMessage:
    """A message that you hold until it is settled, released, or its time runs out."""

    __slots__ = ("_loop", "_message")

    def __init__(self, loop: LoopThread, message: embedded.ClaimedMessage):
        self._loop = loop
        self._message = message

    @property
    def id(self) -> str:
        return self._message.id

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def key(self) -> str | None:
        return self._message.key

    @property
    def attributes(self) -> Attributes:
        return self._message.attributes

    @property
    def receives(self) -> int:
        """How often it was handed out, this time included."""
        return self._message.receives

    @property
    def sequence(self) -> int:
        return self._message.sequence

    @property
    def accepted_at(self) -> datetime:
        return self._message.accepted_at

    @property
    def published_at(self) -> datetime:
        return self._message.published_at

    @property
    def expires_at(self) -> datetime | None:
        return self._message.expires_at

    @property
    def origin(self) -> Origin | None:
        """Where a dead-lettered message came from, and why."""
        return self._message.origin

    @property
    def receipt(self) -> str:
        """Proof that you hold it, as text: for another process to settle it with."""
        return self._message.receipt

    def settle(self) -> None:
        """It is done: it is never handed out again. Doing it twice is no error."""
        self._loop.run(self._message.settle())

    def extend(self, seconds: float) -> None:
        """Hold it for so long from now."""
        self._loop.run(self._message.extend(seconds))

    def release(self, delay: float | None = None) -> None:
        """Give it up, to be handed out again after the delay (None: as the subscription's backoff says)."""
        self._loop.run(self._message.release(delay))

    def __repr__(self) -> str:
        return repr(self._message)


class Broker:
    """All of Rowlock, on one database, for any number of threads. Open it with `rowlock.blocking.open`."""

    def __init__(
        self,
        url: str,
        *,
        lanes: int | None = None,
        create_on_use: bool = False,
        owner: str | None = None,
        patience: float = limits.PATIENCE_SECONDS,
    ) -> None:
        self._broker = embedded.Broker(url, lanes=lanes, create_on_use=create_on_use, owner=owner, patience=patience)
        self._loop = LoopThread()

    def open(self) -> Self:
        try:
            self._loop.run(self._broker.open())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def close(self) -> None:
        """Carry what has been asked for, then let everything go. It may be called again."""
        try:
            if not self._loop.stopped:
                self._loop.run(self._broker.close())
        finally:
            self._loop.stop()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def lanes(self) -> int:
        """How many lanes the database has."""
        return self._broker.lanes

    def create_queue(self, name: str, **settings: Any) -> None:
        """Create a queue: a topic and a subscription of one name. It may exist with the same settings."""
        self._loop.run(self._broker.create_queue(name, **settings))

    def create_topic(self, name: str, **settings: Any) -> None:
        """Create a topic. It may exist with the same settings."""
        self._loop.run(self._broker.create_topic(name, **settings))

    def create_subscription(
        self, name: str, topics: str | Sequence[str], *, start: str = "latest", **settings: Any
    ) -> None:
        """Create a subscription on one or several topics, from their latest or their earliest message on."""
        self._loop.run(self._broker.create_subscription(name, topics, start=start, **settings))

    def create_reader(self, name: str, topics: str | Sequence[str], *, start: str = "earliest") -> None:
        """Create a reader: a named position in every partition, moved by `commit`."""
        self._loop.run(self._broker.create_reader(name, topics, start=start))

    def alter_queue(self, name: str, **settings: Any) -> None:
        """Change settings of a queue; the others stay as they are."""
        self._loop.run(self._broker.alter_queue(name, **settings))

    def alter_topic(self, name: str, **settings: Any) -> None:
        self._loop.run(self._broker.alter_topic(name, **settings))

    def alter_subscription(self, name: str, **settings: Any) -> None:
        self._loop.run(self._broker.alter_subscription(name, **settings))

    def delete_queue(self, name: str) -> None:
        """Delete a queue and its messages. The rows go in the background, in small steps."""
        self._loop.run(self._broker.delete_queue(name))

    def delete_topic(self, name: str) -> None:
        """Delete a topic that no subscription reads any more."""
        self._loop.run(self._broker.delete_topic(name))

    def delete_subscription(self, name: str) -> None:
        self._loop.run(self._broker.delete_subscription(name))

    def queues(self, prefix: str = "") -> list[Description]:
        return self._loop.run(self._broker.queues(prefix))

    def topics(self, prefix: str = "") -> list[Description]:
        return self._loop.run(self._broker.topics(prefix))

    def subscriptions(self, prefix: str = "") -> list[Description]:
        return self._loop.run(self._broker.subscriptions(prefix))

    def show_queue(self, name: str) -> Description:
        """Settings, creation time, owner, and how much there is."""
        return self._loop.run(self._broker.show_queue(name))

    def show_topic(self, name: str) -> Description:
        return self._loop.run(self._broker.show_topic(name))

    def show_subscription(self, name: str) -> Description:
        return self._loop.run(self._broker.show_subscription(name))

    def depth(self, name: str) -> Depth:
        """How many messages a queue or subscription has ready, in flight, and delayed; by arithmetic."""
        return self._loop.run(self._broker.depth(name))

    def publish(self, name: str, messages: Iterable[Message | bytes] | Message | bytes) -> list[Published]:
        """Store messages in a topic or queue, durably, before this returns.

        Where some are refused, the others are stored all the same, and PublishRefused says which are which.
        """
        return self._loop.run(self._broker.publish(name, _batch(messages)))

    def claim(
        self, name: str, max_messages: int = 1, *, visibility_timeout: float | None = None, wait: float = 0
    ) -> list[ClaimedMessage]:
        """Take up to so many messages from a queue or subscription; each is yours until its visibility timeout ends.

        Where there is none, wait for up to `wait` seconds (20 at the most) for the first.
        """
        return self._ours(
            self._loop.run(
                self._broker.claim(name, max_messages, visibility_timeout=visibility_timeout, wait=wait),
                self._give_back,
            )
        )

    def settle(self, messages: Iterable[ClaimedMessage | str]) -> None:
        """Settle many, by message or by receipt. Where some are no longer yours, StaleReceipt says which."""
        self._loop.run(self._broker.settle(_theirs(messages)))

    def extend(self, messages: Iterable[ClaimedMessage | str], seconds: float) -> None:
        self._loop.run(self._broker.extend(_theirs(messages), seconds))

    def release(self, messages: Iterable[ClaimedMessage | str], delay: float | None = None) -> None:
        self._loop.run(self._broker.release(_theirs(messages), delay))

    def seek(self, name: str, to: str | int | datetime, *, partition: int | None = None) -> dict[int, int]:
        """Start a subscription again from 'earliest', 'latest', a time, or a sequence. Every hold is dropped.

        Returns, by partition, the next sequence.
        """
        return self._loop.run(self._broker.seek(name, to, partition=partition))

    def commit(self, name: str, sequence: int, *, partition: int = 0) -> None:
        """Move a reader: everything below the sequence has been read."""
        self._loop.run(self._broker.commit(name, sequence, partition=partition))

    def purge(self, name: str) -> None:
        """Forget every message that is in a queue now."""
        self._loop.run(self._broker.purge(name))

    def redrive(self, source: str, destination: str | None = None, *, rate: float | None = None) -> Redrive:
        """Begin to move a dead-letter queue's messages back to where they came from, or to another queue."""
        return self._loop.run(self._broker.redrive(source, destination, rate=rate))

    def redrives(self, source: str | None = None) -> list[Redrive]:
        """Redrives, the newest first."""
        return self._loop.run(self._broker.redrives(source))

    def cancel_redrive(self, task: int) -> Redrive:
        """Stop a redrive; what it has moved stays moved."""
        return self._loop.run(self._broker.cancel_redrive(task))

    def _ours(self, messages: list[embedded.ClaimedMessage]) -> list[ClaimedMessage]:
        return [ClaimedMessage(self._loop, one) for one in messages]

    def _give_back(self, messages: list[embedded.ClaimedMessage]) -> None:
        """Their caller was interrupted and never saw them."""
        self._broker._engine.give_back([one._claimed for one in messages])


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


def _batch(messages: Iterable[Message | bytes] | Message | bytes) -> list[Message | bytes]:
    """A generator runs in its caller's thread, and not on the loop."""
    return [messages] if isinstance(messages, (Message, bytes)) else list(messages)


def _theirs(messages: Iterable[ClaimedMessage | str]) -> list[embedded.ClaimedMessage | str]:
    return [one if isinstance(one, str) else one._message for one in messages]
