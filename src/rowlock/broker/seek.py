"""Seek: a subscription starts again from somewhere else; purge: from the end. Every hold is dropped, every receipt
void."""

from __future__ import annotations

from rowlock import limits
from rowlock.broker.catalog import Source, Subscription, Topic
from rowlock.broker.cycle import AGAIN
from rowlock.broker.draft import Draft
from rowlock.broker.work import Place, Work
from rowlock.store.port import Cursor, Lane, Scheduled

EARLIEST = 0
LATEST = -1


class Seek(Work):
    """Move one ledger's frontier to a sequence (EARLIEST, LATEST, or one in the log). The result: the new frontier."""

    verb = "seek"

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
    """Move the frontier to the end, and forget what is scheduled. The result: the new frontier."""

    verb = "purge"
    needs_lock = True

    def __init__(self, subscription: Subscription, topic: Topic, source: Source):
        super().__init__(subscription, topic, source, LATEST)
        self._scheduled: list[Scheduled] = []

    async def read(self, lane: Lane, draft: Draft) -> None:
        self._scheduled = await lane.due(self._cursor[0], 2**62, limits.MOVE_STEP_MESSAGES)

    def decide(self, draft: Draft) -> object:
        frontier = super().decide(draft)
        draft.unschedule(self._cursor[0], self._scheduled)
        return AGAIN if self._scheduled else frontier
