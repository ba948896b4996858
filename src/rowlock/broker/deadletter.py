"""Dead-lettering: messages that were received too often, or expired, move to the dead-letter queue in one
transaction."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rowlock.broker.catalog import Partition, Subscription, Topic
from rowlock.broker.draft import Draft, batch_of_moved
from rowlock.broker.work import Place, Work, step_of
from rowlock.model import Origin
from rowlock.store.port import Cursor, Stored, Wanted


class DeadLetter(Work):
    """Move what a ledger gave up to a partition of the dead-letter queue. The result: how many were moved, and
    whether all."""

    verb = "dead-letter"
    rank = 2
    grows = True

    def __init__(self, subscription: Subscription, cursor: Cursor, origin: Topic, target: Topic, to: Partition):
        super().__init__()
        self.places = {cursor: Place(cursor, subscription.version, subscription.rules)}
        self.parts = {to.part: target.version}
        self._cursor = cursor
        self._subscription = subscription
        self._origin = origin
        self._step = step_of(origin.settings.max_message_bytes)
        self._number = next(one.number for one in origin.partitions if one.part == cursor[0])
        self._target = target
        self._to = to

    def wanted(self, draft: Draft) -> Iterable[Wanted | tuple[int, int]]:
        part = self._cursor[0]
        log = draft.log(part)
        for dying in draft.ledger(self._cursor).doomed(self._step):
            if dying.seq not in log:
                yield part, dying.seq

    def decide(self, draft: Draft) -> tuple[int, bool]:
        ledger = draft.ledger(self._cursor)
        log = draft.log(self._cursor[0])
        moved: list[tuple[Stored, bytes]] = []
        doomed = ledger.doomed(self._step)
        for seq, reason, receives in doomed:
            message = log.get(seq)
            ledger.drop(seq)
            if message is not None:
                origin = Origin(
                    self._subscription.name, self._origin.name, self._number, seq, reason, receives, draft.now
                )
                moved.append((message, msgspec.msgpack.encode(origin)))
        if moved:
            messages, origins = [message for message, _ in moved], [origin for _, origin in moved]
            draft.append(self._to.part, batch_of_moved(messages, self._target.settings, draft.now, origins))
        return len(doomed), not ledger.dying
