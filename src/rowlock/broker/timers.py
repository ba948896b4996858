"""Timers: what must be done at a time. Ledgers whose holds run out, partitions whose scheduled messages are due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rowlock.broker.cycle import Cycle
from rowlock.broker.deadletter import DeadLetter
from rowlock.broker.draft import Draft
from rowlock.broker.schedule import MoveDue
from rowlock.broker.work import Outdated
from rowlock.errors import NotFound
from rowlock.store.port import Cursor

if TYPE_CHECKING:
    from rowlock.broker.broker import Broker

log = logging.getLogger("rowlock.timers")

LONGEST_SLEEP_SECONDS = 60.0
SCHEDULE = 0
"""In the place of a subscription: the timer of a partition's schedule."""


class Timers:
    """The ledgers that this process has in use, and what it scheduled; the sweep finds all others."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._heap: list[tuple[int, int, Cursor, Cycle]] = []
        self._count = 0
        self._times: dict[Cursor, int] = {}
        self._set = asyncio.Event()
        self._burying: set[Cursor] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock timers")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def carried(self, cycle: Cycle, draft: Draft) -> None:
        """A cycle was carried: its ledgers may have new timers, or messages to dead-letter. Also those that it only
        looked at: another broker, which may be gone, handed out what is in them."""
        for cursor in draft.cursors:
            remembered = cycle.memory.ledgers.get(cursor)
            if remembered is not None:
                if remembered.ledger.dying:
                    self.bury(cursor)
                self._put(remembered.ledger.next_time(), cursor, cycle)
        for row in draft.changes.scheduled:
            self._put(row.due, (row.part, SCHEDULE), cycle)

    def _put(self, time: int | None, cursor: Cursor, cycle: Cycle) -> None:
        if time is None or self._times.get(cursor, time + 1) <= time:
            return
        self._times[cursor] = time
        self._count += 1
        heappush(self._heap, (time, self._count, cursor, cycle))
        if self._heap[0][2] == cursor:
            self._set.set()

    async def _run(self) -> None:
        clock = self._broker.clock
        while True:
            self._set.clear()
            pause = (self._heap[0][0] - clock.now()) / 1000 if self._heap else LONGEST_SLEEP_SECONDS
            if pause > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(pause, LONGEST_SLEEP_SECONDS) + 0.001):
                        await self._set.wait()
                continue
            time, _, cursor, cycle = heappop(self._heap)
            if self._times.get(cursor) == time:
                del self._times[cursor]
                try:
                    self._fire(cursor, cycle)
                except Exception:
                    log.exception("A timer failed in a way that it should not.")

    def _fire(self, cursor: Cursor, cycle: Cycle) -> None:
        if cursor[1] == SCHEDULE:
            self.move_due([cursor[0]])
            return
        remembered = cycle.memory.ledgers.get(cursor)
        if remembered is None:
            return
        ledger = remembered.ledger
        ledger.advance(self._broker.clock.now())
        if ledger.dying:
            self.bury(cursor)
        if ledger.open:
            self._broker.listener.opened(cursor, ledger.open)
        self._put(ledger.next_time(), cursor, cycle)

    # Dead-lettering

    def bury(self, cursor: Cursor) -> None:
        """A ledger has messages to dead-letter: begin, unless that is under way."""
        if cursor not in self._burying:
            self._burying.add(cursor)
            self._broker.begin(self._bury(cursor))

    async def _bury(self, cursor: Cursor) -> None:
        try:
            name = await self._broker.catalog.name_of(cursor[1])
            await self._broker.current(name, lambda: self._bury_all(cursor))
        finally:
            self._burying.discard(cursor)

    async def _bury_all(self, cursor: Cursor) -> None:
        broker = self._broker
        part, sub = cursor
        subscription = await broker.catalog.subscription_by_id(sub)
        source = next((one for one in subscription.sources if one.part == part), None)
        if source is None:
            raise NotFound(f"{subscription.name!r} does not read partition {part} any more.")
        origin = next(topic for topic in subscription.topics if topic.id == source.topic)
        target = await broker.catalog.topic(subscription.settings.dead_letter or "")
        to = next((one for one in target.partitions if one.lane == source.lane), None)
        if to is None:
            raise NotFound(f"{target.name!r} has no partition in lane {source.lane}.")
        everything = False
        while not everything:
            work = DeadLetter(subscription, cursor, origin, target, to)
            work.channel = (source.lane, source.durability)
            try:
                _, everything = await broker.carry(work)
            except Outdated:
                broker.catalog.forget(target.name)
                raise

    # Schedules

    def move_due(self, parts: Iterable[int]) -> None:
        """Scheduled messages of these partitions are due."""
        for part in parts:
            self._broker.begin(self._move_due(part))

    async def _move_due(self, part: int) -> None:
        broker = self._broker
        name = await broker.catalog.topic_name_of(part)

        async def move() -> None:
            topic = await broker.catalog.topic(name)
            partition = next((one for one in topic.partitions if one.part == part), None)
            if partition is None:
                raise NotFound(f"{topic.name!r} has no partition {part} any more.")
            more = True
            while more:
                work = MoveDue(topic, partition)
                work.channel = (partition.lane, topic.durability)
                more = await broker.carry(work)

        await broker.current(name, move)
