"""Watch: who is told when something comes. After every cycle, at every timer, at every hint of another process, and by one
bounded query for all waiters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from rowlock.broker.cycle import Cycle
from rowlock.broker.deadletter import DeadLetter
from rowlock.broker.draft import Draft
from rowlock.broker.schedule import MoveDue
from rowlock.broker.work import Outdated, Work
from rowlock.errors import NotFound, RowlockError
from rowlock.store.faults import StoreFault
from rowlock.store.port import Cursor, Durability, Lane, Position

if TYPE_CHECKING:
    from rowlock.broker.broker import Broker
    from rowlock.broker.work import Channel

HINT_PAUSE_SECONDS = 0.05
IDLE_SECONDS = 1.0


class Watch:
    """The one place that looks at what cycles did and at what other processes do."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._timers: list[tuple[int, Cursor, Cycle]] = []
        self._timed: dict[Cursor, int] = {}
        self._timer_set = asyncio.Event()
        self._hints: set[int] = set()
        self._hint_set = asyncio.Event()
        self._seen: dict[Cursor, Position] = {}
        self._lanes: dict[int, Lane] = {}
        self._lane_locks: dict[int, asyncio.Lock] = {}
        self._burying: set[Cursor] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run_timers()), loop.create_task(self._run_poll())]
        if self._broker.store.hints:
            self._tasks.append(loop.create_task(self._run_hints()))
            self._tasks.append(loop.create_task(self._broker.store.listen(self._heard)))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for lane in self._lanes.values():
            await lane.close()

    @asynccontextmanager
    async def lane(self, number: int) -> AsyncIterator[Lane]:
        """A connection to look around with, outside any cycle; one user at a time."""
        lock = self._lane_locks.setdefault(number, asyncio.Lock())
        async with lock:
            lane = self._lanes.get(number)
            if lane is None:
                lane = self._lanes[number] = await self._broker.store.lane(number, Durability.LOCAL)
            try:
                yield lane
            except BaseException as fault:
                if not isinstance(fault, RowlockError):
                    del self._lanes[number]
                    await lane.close()
                raise

    # After a cycle

    def joining(self, cycle: Cycle, appended: dict[int, int]) -> list[Work]:
        """Waiting claims that share the cycle which appends their messages."""
        works: list[Work] = []
        for part, count in appended.items():
            for sub in self._broker.waiters.subs_of(part):
                found = self._broker.waiters.trying(part, sub, count)
                for work in found:
                    if work.channel == cycle.channel:
                        works.append(work)
                    else:
                        self._broker.submit(work)
        return works

    def carried(self, cycle: Cycle, draft: Draft) -> None:
        """A cycle was committed: wake whom it concerns, set timers, hint to others."""
        ledgers = cycle.memory.ledgers
        changed, touched = draft.appended_parts, draft.touched_cursors
        for cursor in touched:
            remembered = ledgers.get(cursor)
            if remembered is None:
                continue
            ledger, partition = remembered.ledger, cycle.memory.partitions.get(cursor[0])
            ready = ledger.open + max(0, (partition.last if partition else 0) - ledger.frontier + 1)
            if ready:
                self._broker.waiters.wake(*cursor, most=ready)
                changed.add(cursor[0])
            if ledger.dying:
                self.bury(cursor)
            self.set_timer(ledger.next_time(), cursor, cycle)
        for part in draft.appended_parts:
            for sub in self._broker.waiters.subs_of(part):
                if (part, sub) not in touched:
                    self._broker.waiters.wake(part, sub)
        for row in draft.changes.scheduled:
            self.set_timer(row.due, (row.part, 0), cycle)
        if changed and self._broker.store.hints:
            self._hints |= changed
            self._hint_set.set()

    # Timers

    def set_timer(self, time: int | None, cursor: Cursor, cycle: Cycle) -> None:
        """Look at this ledger at that time (sub 0: at the partition's schedule)."""
        if time is None or self._timed.get(cursor, time + 1) <= time:
            return
        self._timed[cursor] = time
        heappush(self._timers, (time, cursor, cycle))
        if self._timers[0][1] == cursor:
            self._timer_set.set()

    async def _run_timers(self) -> None:
        clock = self._broker.clock
        while True:
            self._timer_set.clear()
            pause = (self._timers[0][0] - clock.now()) / 1000 if self._timers else None
            if pause is None or pause > 0:
                try:
                    async with asyncio.timeout(None if pause is None else min(pause, 60) + 0.001):
                        await self._timer_set.wait()
                except TimeoutError:
                    pass
                continue
            time, cursor, cycle = heappop(self._timers)
            if self._timed.get(cursor) == time:
                del self._timed[cursor]
                self._fire(cursor, cycle)

    def _fire(self, cursor: Cursor, cycle: Cycle) -> None:
        if not cursor[1]:
            self._broker.begin(self._move_due(cursor[0]))
            return
        remembered = cycle.memory.ledgers.get(cursor)
        if remembered is None:
            return
        ledger = remembered.ledger
        ledger.advance(self._broker.clock.now())
        if ledger.dying:
            self.bury(cursor)
        if ledger.open:
            self._broker.waiters.wake(*cursor, most=ledger.open)
        self.set_timer(ledger.next_time(), cursor, cycle)

    # Dead-lettering and schedules

    def bury(self, cursor: Cursor) -> None:
        """A ledger has messages to dead-letter."""
        if cursor not in self._burying:
            self._burying.add(cursor)
            self._broker.begin(self._bury(cursor))

    async def _bury(self, cursor: Cursor) -> None:
        broker = self._broker
        part, sub = cursor
        try:
            name = await broker.catalog.name_of(sub)

            async def bury() -> None:
                subscription = await broker.catalog.subscription_by_id(sub)
                source = next(one for one in subscription.sources if one.part == part)
                origin = next(topic for topic in subscription.topics if topic.id == source.topic)
                assert subscription.settings.dead_letter is not None
                target = await broker.catalog.topic(subscription.settings.dead_letter)
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

            await broker.current(name, bury)
        finally:
            self._burying.discard(cursor)

    async def _move_due(self, part: int) -> None:
        broker = self._broker
        for entry in await broker.store.control.get([part]):
            topic_id = int(entry.name.split("/")[0])
            name = await broker.catalog.name_of(topic_id)

            async def move() -> None:
                topic = await broker.catalog.topic(name)
                partition = next(one for one in topic.partitions if one.part == part)
                more = True
                while more:
                    work = MoveDue(topic, partition)
                    work.channel = (partition.lane, topic.durability)
                    more = await broker.carry(work)

            await broker.current(name, move)

    def move_due(self, parts: Iterable[int]) -> None:
        for part in parts:
            self._broker.begin(self._move_due(part))

    # Other processes

    def _heard(self, parts: Sequence[int] | None) -> None:
        """Another process hints that partitions changed (None: any)."""
        waiters = self._broker.waiters
        for part, sub in waiters.cursors() if parts is None else [(p, s) for p in parts for s in waiters.subs_of(p)]:
            waiters.wake(part, sub)

    async def _run_hints(self) -> None:
        while True:
            await self._hint_set.wait()
            self._hint_set.clear()
            parts, self._hints = sorted(self._hints), set()
            await self._broker.store.hint(parts)
            await asyncio.sleep(HINT_PAUSE_SECONDS)

    async def _run_poll(self) -> None:
        pause = self._broker.store.hint_poll_ms / 1000
        while True:
            await asyncio.sleep(pause)
            try:
                await self._poll()
            except (StoreFault, RowlockError):
                await asyncio.sleep(IDLE_SECONDS)

    async def _poll(self) -> None:
        """One query for all waiters: wake those for whom something may have come."""
        broker = self._broker
        waiting = broker.waiters.cursors()
        if not waiting:
            self._seen.clear()
            return
        channels = self._channels(waiting)
        for number in {channel[0] for channel in channels.values()}:
            cursors = [cursor for cursor in waiting if cursor in channels and channels[cursor][0] == number]
            async with self.lane(number) as lane:
                positions = await lane.positions(cursors)
            for position in positions:
                self._compare(position, channels)

    def _channels(self, cursors: Iterable[Cursor]) -> dict[Cursor, Channel]:
        found: dict[Cursor, Channel] = {}
        for cursor in cursors:
            work = self._broker.waiters.channel(cursor)
            if work is not None:
                found[cursor] = work
        return found

    def _compare(self, position: Position, channels: dict[Cursor, Channel]) -> None:
        cursor = (position.part, position.sub)
        before, self._seen[cursor] = self._seen.get(cursor), position
        remembered = self._broker.cycle(channels[cursor]).memory.ledgers.get(cursor)
        changed = before is None or before.stamp != position.stamp or before.version != position.version
        unseen = remembered is None and position.outstanding > 0
        if position.last >= position.frontier or (changed and position.outstanding > 0) or unseen:
            self._broker.waiters.wake(*cursor, most=max(1, position.last - position.frontier + 1))
