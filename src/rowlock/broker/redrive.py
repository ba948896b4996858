"""Redrive: a step of a task that moves messages from one queue's log to others', each in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rowlock import limits
from rowlock.broker.catalog import Partition, Subscription, Topic
from rowlock.broker.draft import Draft, batch_of_moved
from rowlock.broker.publish import partition_of
from rowlock.broker.work import Place, Work, step_of
from rowlock.model import Origin
from rowlock.store.port import Cursor, Progress, Stored, Wanted

_HOLD_MS = 1000


class Stuck(Exception):
    """A message cannot be moved; the sentence says why."""


class Move(Work):
    """Move up to `limit` messages of one ledger to the targets. The result: how many were moved.

    `destination` takes all; where it is None, each goes back to the topic and partition that it was dead-lettered from.
    """

    verb = "redrive"
    rank = 2
    grows = True

    def __init__(
        self,
        task: int,
        subscription: Subscription,
        cursor: Cursor,
        destination: Topic | None,
        targets: Mapping[str, Topic],
        limit: int,
    ):
        super().__init__()
        lane = next(source.lane for source in subscription.sources if source.part == cursor[0])
        self.places = {cursor: Place(cursor, subscription.version, subscription.rules)}
        self.parts = {
            one.part: topic.version for topic in targets.values() for one in topic.partitions if one.lane == lane
        }
        self._task = task
        self._cursor = cursor
        self._destination = destination
        self._targets = targets
        self._limit = min(limit, step_of(subscription.largest_bytes))

    def wanted(self, draft: Draft) -> Iterable[Wanted | tuple[int, int]]:
        part = self._cursor[0]
        ledger, log, last = draft.ledger(self._cursor), draft.log(part), draft.last(part)
        yield from [(part, seq) for seq in ledger.opened(self._limit) if seq not in log]
        stop = min(last + 1, ledger.frontier + self._limit)
        if any(seq not in log for seq in range(ledger.frontier, stop)):
            yield Wanted(part, ledger.frontier, stop, limits.CYCLE_BYTES)

    def decide(self, draft: Draft) -> int:
        part = self._cursor[0]
        ledger, log = draft.ledger(self._cursor), draft.log(part)
        moved: dict[int, list[Stored]] = {}
        topics: dict[int, Topic] = {}
        count = 0
        for run in ledger.claim(log, draft.last(part), self._limit, ledger.at + _HOLD_MS, draft.stamp):
            for seq in range(run.start, run.stop):
                topic, target = self._target(log[seq])
                moved.setdefault(target.part, []).append(log[seq])
                topics[target.part] = topic
                ledger.drop(seq)
                count += 1
        for target_part, messages in moved.items():
            draft.append(target_part, batch_of_moved(messages, topics[target_part].settings, draft.now))
        if count:
            draft.changes.progress.append(Progress(self._task, part, count))
        return count

    def _target(self, message: Stored) -> tuple[Topic, Partition]:
        topic = self._destination
        if topic is not None:
            target = partition_of(topic, message.key or "")
        else:
            origin = None if message.origin is None else msgspec.msgpack.decode(message.origin, type=Origin)
            topic = None if origin is None else self._targets.get(origin.topic)
            if origin is None or topic is None:
                raise Stuck(f"Message {message.id.hex()} does not say where it came from: name a destination.")
            target = topic.partitions[origin.partition % len(topic.partitions)]
        if message.size > topic.settings.max_message_bytes:
            raise Stuck(
                f"Message {message.id.hex()} has {message.size} bytes: {topic.name!r} allows "
                f"{topic.settings.max_message_bytes}."
            )
        if topic.keyed and message.key is None:
            raise Stuck(f"Message {message.id.hex()} has no key: {topic.name!r} is ordered by key.")
        if target.part not in self.parts:
            raise Stuck(f"{topic.name!r} has no partition in the lane of the message {message.id.hex()}.")
        return topic, target
