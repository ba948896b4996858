"""Retention: what every subscription is done with, or what is too old, is given up; the rows go later, in small
steps."""

from __future__ import annotations

from rowlock.broker.catalog import Partition, Subscription, Topic
from rowlock.broker.draft import Draft
from rowlock.broker.work import Place, Work
from rowlock.settings import UNTIL_ACKNOWLEDGED, TopicSettings
from rowlock.store.port import Lane


def longest_ms(settings: TopicSettings) -> int:
    """How long a topic keeps a message at the most."""
    if settings.retention == UNTIL_ACKNOWLEDGED:
        return int(settings.max_retention * 1000)
    return int(float(settings.retention) * 1000)


class Trim(Work):
    """Raise the first sequence of a partition as far as retention allows. The result: the new first sequence."""

    verb = "trim"
    needs_lock = True

    def __init__(self, topic: Topic, partition: Partition, subscriptions: list[Subscription], swept: int):
        super().__init__()
        self._topic = topic
        self._part = partition.part
        self.parts = {partition.part: topic.version}
        self.whole = (partition.part,)
        self.places = {
            (partition.part, one.id): Place((partition.part, one.id), one.version, one.rules) for one in subscriptions
        }
        self._swept = swept
        self._too_old = 0

    async def read(self, lane: Lane, draft: Draft) -> None:
        self._too_old = await lane.sequence_at(self._part, draft.now - longest_ms(self._topic.settings))

    def decide(self, draft: Draft) -> int:
        partition = draft.partition(self._part)
        first = self._too_old
        ledgers = [draft.ledger(cursor) for cursor in self.places]
        if self._topic.settings.retention == UNTIL_ACKNOWLEDGED:
            acknowledged = min([ledger.lowest for ledger in ledgers], default=first)
            first = max(first, acknowledged)
        first = min(first, draft.last(self._part) + 1)
        if first <= partition.first:
            return partition.first
        for ledger in ledgers:
            if ledger.lowest < first:
                ledger.trim(first)
        draft.raise_first(self._part, first, max(self._swept, partition.swept))
        draft.memory.trim_log(self._part, first)
        return first
