"""Delayed messages: those that are due move from the schedule to the log, under the partition's lock."""

from __future__ import annotations

from rowlock.broker.catalog import Partition, Topic
from rowlock.broker.draft import Batch, Draft
from rowlock.broker.work import Work, step_of
from rowlock.store.port import Lane, Scheduled


class MoveDue(Work):
    """Move a step of what is due in one partition. The result: whether there may be more."""

    verb = "move due"
    rank = 0
    grows = True

    def __init__(self, topic: Topic, partition: Partition):
        super().__init__()
        self.parts = {partition.part: topic.version}
        self._part = partition.part
        self._step = step_of(topic.settings.max_message_bytes)
        self._due: list[Scheduled] = []

    needs_lock = True

    async def read(self, lane: Lane, draft: Draft) -> None:
        self._due = await lane.due(self._part, draft.now, self._step)

    def decide(self, draft: Draft) -> bool:
        rows = draft.unschedule(self._part, self._due)
        if rows:
            draft.append(self._part, _batch(rows))
        return len(self._due) == self._step


def _batch(rows: list[Scheduled]) -> Batch:
    return Batch(
        ids=[row.id for row in rows],
        bodies=[row.body for row in rows],
        sizes=[row.size for row in rows],
        keys=[row.key for row in rows],
        attributes=[row.attributes for row in rows],
        expires_at=[row.expires_at for row in rows],
        due_at=[],
        origins=[],
        accepted_at=[row.accepted_at for row in rows],
    )
