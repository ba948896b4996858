"""Background: what must happen though nobody asks for it, in small steps, by one process at a time.

- move due   scheduled messages whose time has come (by every process, whoever scheduled them)
- sweep      every few seconds, over all ledgers of a lane in a few statements: dead-letter and expire where nobody
             claims, and find partitions that retention may trim
- trim       raise the first sequence of a partition, and delete the rows below it
- clear      delete what deleted partitions and ledgers left behind, old deduplication ids, old writers
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from rowlock import ids, limits
from rowlock.broker.administer import RemainsDocument
from rowlock.broker.catalog import Partition, Topic
from rowlock.broker.expire import Expire
from rowlock.broker.redriving import RedriveDocument
from rowlock.broker.retention import Trim, longest_ms
from rowlock.broker.work import Outdated
from rowlock.errors import NotFound, RowlockError
from rowlock.ledger import stored
from rowlock.ledger.ledger import Ledger
from rowlock.ledger.page import SHIFT
from rowlock.settings import UNTIL_ACKNOWLEDGED
from rowlock.store.faults import Lost, StoreFault
from rowlock.store.port import Cursor, Entry, Position

if TYPE_CHECKING:
    from rowlock.broker.broker import Broker

log = logging.getLogger("rowlock.background")

STEP_SECONDS = 4.0
LEASE_MS = 9_000
EXPIRE_MS = 60_000
"""A ledger that nobody has used for this long is looked at for messages that expired behind its frontier."""
CLEAR_SECONDS = 60.0
FULL_CLEAR_SECONDS = 3600.0
TRIM_MESSAGES = 1_000
"""Acknowledged messages that gather before a partition is trimmed, unless some time has passed."""
TRIM_SECONDS = 600.0
TRIM_PARTITIONS = 50
"""How many partitions one sweep trims only because time has passed: a thousand queues that hold little take turns."""
WRITER_MS = 24 * 3600 * 1000
REDRIVE_MS = 14 * 24 * 3600 * 1000
"""For so long a redrive that has ended is still told of."""


class Background:
    """One process's share of the background work: all of it, while it holds the lease."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._holder = ids.stamp()
        self._task: asyncio.Task[None] | None = None
        self._timers: dict[Cursor, tuple[int, int]] = {}
        """Of each ledger with messages outstanding: its stamp, and when it must be looked at."""
        self._oldest: dict[int, tuple[int, int]] = {}
        """Of each partition with messages: its first sequence, and when that was published."""
        self._trimmed: dict[int, float] = {}
        """When each partition was last trimmed, by this process's clock."""
        self._small_trims = 0
        self._swept: dict[int, int] = {}
        """Below which sequence the rows of a partition are deleted."""
        self.deduplicating: set[int] = set()
        """Partitions in which this process has remembered deduplication ids."""
        self._cleared = self._fully_cleared = 0.0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock background")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._safely(self.move_due)
            await self._safely(self.take_duty)
            await asyncio.sleep(STEP_SECONDS * random.uniform(0.8, 1.2))

    async def _safely(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except (StoreFault, RowlockError, Outdated) as fault:
            log.warning("%s is put off: %s", step.__name__, fault)
        except Exception:
            log.exception("%s failed in a way that it should not.", step.__name__)

    async def take_duty(self) -> None:
        """What one process does for all, while it holds the lease."""
        if await self._broker.store.control.lease("background", self._holder, LEASE_MS):
            await self._safely(self.sweep)
            if time.monotonic() - self._cleared > CLEAR_SECONDS:
                self._cleared = time.monotonic()
                await self._safely(self.clear)

    async def move_due(self) -> None:
        """What a process scheduled that has died since must not wait for the lease of that process to end as well."""
        for number in range(self._broker.store.lanes):
            async with self._broker.lanes.use(number) as lane:
                self._broker.timers.move_due(await lane.parts_due(self._broker.clock.now()))

    # Sweep

    async def sweep(self) -> None:
        """Look at every ledger, in bounded steps, without a lock."""
        broker = self._broker
        self._small_trims = 0
        for number in range(broker.store.lanes):
            after: Cursor | None = (0, 0)
            while after is not None:
                async with broker.lanes.use(number) as lane:
                    cursors = await lane.all_cursors(after, limits.SWEEP_STEP_CURSORS)
                    positions = await lane.positions(cursors) if cursors else []
                for part, found in groupby(sorted(positions, key=_cursor), key=_part):
                    await self._look_at_safely(number, part, list(found))
                after = cursors[-1] if len(cursors) == limits.SWEEP_STEP_CURSORS else None

    async def _look_at_safely(self, number: int, part: int, positions: list[Position]) -> None:
        """Trouble with one partition must not keep the sweep from all others."""
        try:
            await self._look_at(number, part, positions)
        except Lost:
            raise
        except (RowlockError, Outdated) as fault:
            log.warning("Partition %s is put off: %s", part, fault)

    async def _look_at(self, number: int, part: int, positions: list[Position]) -> None:
        """One partition and its ledgers."""
        for position in positions:
            if position.outstanding or position.frontier <= position.last:
                with suppress(NotFound):
                    await self._look_at_ledger(number, position)
        if positions[0].first <= positions[0].last:
            with suppress(NotFound):
                await self._look_at_retention(number, part, positions)

    async def _look_at_ledger(self, number: int, position: Position) -> None:
        """Whether a timer of the ledger is due, or its next message has expired."""
        broker = self._broker
        cursor = (position.part, position.sub)
        now = broker.clock.now()
        stamp, due = self._timers.get(cursor, (0, 0))
        if position.outstanding and stamp != position.stamp:
            due = await self._next_time(number, cursor, now)
            self._timers[cursor] = (position.stamp, due)
        expired = False
        if position.frontier <= position.last:
            expired = await self._has_expired(number, position, now)
        if expired or (position.outstanding and due <= now):
            self._timers.pop(cursor, None)
            broker.begin(self.expire(cursor))

    async def _has_expired(self, number: int, position: Position, now: int) -> bool:
        async with self._broker.lanes.use(number) as lane:
            live, _ = await lane.first_live(position.part, position.frontier, 1, now)
        return live > position.frontier

    async def _next_time(self, number: int, cursor: Cursor, now: int) -> int:
        """When something of a ledger must be dead-lettered, or it is time to look for what expired after a release."""
        subscription = await self._broker.catalog.subscription_by_id(cursor[1])
        if subscription.settings.dead_letter is None:
            return now + EXPIRE_MS
        async with self._broker.lanes.use(number) as lane:
            rows = await lane.pages(cursor)
        if not rows:
            return now + EXPIRE_MS
        ledger = Ledger(msgspec.structs.replace(subscription.rules, order="none", fair=False))
        stored.install(ledger, stored.incoming(ledger, rows), {})
        ledger.advance(now)
        if ledger.dying or (ledger.open and subscription.settings.dead_letter_expired):
            return now
        return min(ledger.next_time() or now + EXPIRE_MS, now + EXPIRE_MS)

    async def expire(self, cursor: Cursor) -> None:
        """Bring a ledger that nobody uses to what the time asks of it."""
        broker = self._broker
        part, sub = cursor
        name = await broker.catalog.name_of(sub)

        async def expire() -> None:
            subscription = await broker.catalog.subscription_by_id(sub)
            source = next((one for one in subscription.sources if one.part == part), None)
            if source is not None:
                work = Expire(subscription, source)
                work.channel = (source.lane, source.durability)
                await broker.carry(work)

        await broker.current(name, expire)

    # Trim

    async def _look_at_retention(self, number: int, part: int, positions: list[Position]) -> None:
        """Trim a partition when enough was acknowledged, or its oldest message is too old."""
        first = positions[0].first
        waited = self._small_trims < TRIM_PARTITIONS and (
            time.monotonic() - self._trimmed.setdefault(part, time.monotonic()) > TRIM_SECONDS
        )
        reached = min(position.frontier for position in positions) - first
        if reached >= TRIM_MESSAGES or (reached > 0 and waited):
            lowest = min([await self._lowest(number, position) for position in positions])
            if lowest - first >= TRIM_MESSAGES or (lowest > first and waited):
                self._small_trims += lowest - first < TRIM_MESSAGES
                await self.trim(part)
                return
        topic = await self._broker.catalog.topic_of(part)
        if await self._published_at(number, part, first) < self._broker.clock.now() - longest_ms(topic.settings):
            await self.trim(part)

    async def _lowest(self, number: int, position: Position) -> int:
        """About the first sequence that a subscription is not done with: never too high."""
        if not position.outstanding:
            return position.frontier
        async with self._broker.lanes.use(number) as lane:
            rows = await lane.pages((position.part, position.sub))
        held = [row.page for row in rows if row.data is not None and any(row.data[-limits.PAGE_MESSAGES :])]
        return min(held) << SHIFT if held else position.frontier

    async def _published_at(self, number: int, part: int, first: int) -> int:
        known = self._oldest.get(part)
        if known is None or known[0] != first:
            async with self._broker.lanes.use(number) as lane:
                found = await lane.messages([], [(part, first)])
            if not found:
                return self._broker.clock.now()
            known = self._oldest[part] = (first, found[0].published_at)
        return known[1]

    async def trim(self, part: int) -> None:
        """Raise a partition's first sequence as far as retention allows, and delete the rows below it."""
        broker = self._broker
        topic = await broker.catalog.topic_of(part)
        partition = next((one for one in topic.partitions if one.part == part), None)
        if partition is None:
            return
        self._trimmed[part] = time.monotonic()
        async with broker.lanes.use(partition.lane) as lane:
            rows = await lane.partition_rows([part])
        swept = max([self._swept.get(part, 0), *(row.swept for row in rows)])

        async def trim() -> int:
            fresh = await broker.catalog.topic(topic.name)
            subscriptions = await broker.catalog.subscriptions_of(fresh.id)
            work = Trim(fresh, partition, subscriptions, swept)
            work.channel = (partition.lane, fresh.durability)
            try:
                first: int = await broker.carry(work)
            except Outdated:
                for one in subscriptions:
                    await broker.administer.repair(one.name)
                raise
            return first

        first = await broker.current(topic.name, trim)
        await self._delete_below(partition, swept, min([first, *(row.last for row in rows)]))

    async def _delete_below(self, partition: Partition, swept: int, stop: int) -> None:
        """Delete rows step by step. The newest row always stays: the next sequence is found from it."""
        while swept < stop:
            upto = min(swept + limits.DELETE_STEP_MESSAGES, stop)
            async with self._broker.lanes.use(partition.lane) as lane:
                await lane.delete_messages(partition.part, swept, upto)
            swept = self._swept[partition.part] = upto
            await asyncio.sleep(0)

    # Clear

    async def clear(self) -> None:
        """Delete what deleted things left behind, and what is remembered for a time only."""
        for entry in await self._broker.store.control.list("remains"):
            await self._clear_remains(entry)
        await self._clear_redrives()
        full = time.monotonic() - self._fully_cleared > FULL_CLEAR_SECONDS
        if full:
            self._fully_cleared = time.monotonic()
        await self._clear_topics(full=full)
        for number in range(self._broker.store.lanes):
            async with self._broker.lanes.use(number) as lane:
                await lane.delete_writers(self._broker.clock.now() - WRITER_MS)

    async def _clear_remains(self, entry: Entry) -> None:
        document = msgspec.json.decode(entry.document, type=RemainsDocument)
        gone = 1
        while gone:
            async with self._broker.lanes.use(document.lane) as lane:
                gone = await lane.delete_remains(document.part, document.sub, limits.DELETE_STEP_MESSAGES)
        await self._broker.store.control.apply(removes=[entry])

    async def _clear_redrives(self) -> None:
        """Forget tasks that ended long ago."""
        control = self._broker.store.control
        before = await control.clock() - REDRIVE_MS
        for entry in await control.list("redrive"):
            document = msgspec.json.decode(entry.document, type=RedriveDocument)
            if document.state != "running" and entry.created_at < before:
                await control.apply(removes=[entry])

    async def _clear_topics(self, *, full: bool) -> None:
        """Old deduplication ids; and retention of topics that nobody subscribes to, which no sweep sees."""
        after = ""
        while entries := await self._broker.store.control.list("topic", after=after, limit=100):
            after = entries[-1].name
            for topic in await self._broker.catalog.topics_of(entries):
                for partition in topic.partitions:
                    if full or partition.part in self.deduplicating:
                        await self._clear_deduplicated(topic, partition)
                if full or topic.settings.retention != UNTIL_ACKNOWLEDGED:
                    await self._trim_unread(topic)

    async def _clear_deduplicated(self, topic: Topic, partition: Partition) -> None:
        window_ms = int(topic.settings.deduplication_window * 1000)
        bucket = (self._broker.clock.now() - window_ms) // (limits.DEDUPLICATION_BUCKET_SECONDS * 1000)
        gone = 1
        while gone:
            async with self._broker.lanes.use(partition.lane) as lane:
                gone = await lane.delete_deduplicated(partition.part, bucket, limits.DEDUPLICATION_STEP_ROWS)

    async def _trim_unread(self, topic: Topic) -> None:
        if await self._broker.store.control.children("source", [topic.id]):
            return
        for partition in topic.partitions:
            await self.trim(partition.part)


def _cursor(position: Position) -> Cursor:
    return position.part, position.sub


def _part(position: Position) -> int:
    return position.part
