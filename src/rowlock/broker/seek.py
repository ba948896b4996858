"""Seek: a subscription starts again from somewhere else; purge: from the end. Every hold is dropped, every receipt
void."""

from __future__ import annotations

from rowlock.broker.catalog import Source, Subscription, Topic
from rowlock.broker.cycle import AGAIN
from rowlock.broker.draft import Draft
from rowlock.broker.work import Place, Work, step_of
from rowlock.store.port import Cursor, Delay, Lane

EARLIEST = 0
LATEST = -1


class Seek(Work):
    """Move one ledger's frontier to a sequence (EARLIEST, LATEST, or one in the log). The result: the new frontier."""

    verb = "seek"
    needs_lock = True
    """What is remembered of a partition's first sequence is not compared with anything."""

    def __init__(self, subscription: Subscription, topic: Topic, source: Source, to: int):
        super().__init__()
        self._cursor: Cursor = (source.part, subscription.id)
        self.places = {self._cursor: Place(self._cursor, subscription.version, subscription.rules)}
        self.parts = {source.part: topic.version}
        self._to = to

    def decide(self, draft: Draft) -> object:
        part = self._cursor[0]
        first, end = draft.partition(part).first, draft.last(part) + 1
        to = end if self._to == LATEST else min(max(self._to, first), end)
        draft.ledger(self._cursor).seek(to)
        return to


class Purge(Seek):
    """Move the frontier to where the end is now, and forget what is scheduled by now. The result: the new frontier."""

    verb = "purge"

    def __init__(self, subscription: Subscription, topic: Topic, source: Source):
        super().__init__(subscription, topic, source, LATEST)
        self._step = step_of(topic.settings.max_message_bytes)
        self._begun_at: int | None = None
        self._end = 0
        self._scheduled: list[tuple[int, int, bytes]] = []

    async def read(self, lane: Lane, draft: Draft) -> None:
        part = self._cursor[0]
        if self._begun_at is None:
            self._begun_at, self._end = draft.now, draft.last(part) + 1
        rows = await lane.due(part, 2**62, self._step)
        self._scheduled = [(part, row.due, row.id) for row in rows if row.accepted_at <= self._begun_at]

    def decide(self, draft: Draft) -> object:
        ledger = draft.ledger(self._cursor)
        if ledger.lowest < self._end:
            ledger.seek(max(self._end, draft.partition(self._cursor[0]).first))
        if not self._scheduled:
            return ledger.frontier
        draft.changes.unscheduled += self._scheduled
        draft.changes.delays.append(Delay(self._cursor[0], -len(self._scheduled)))
        return AGAIN
