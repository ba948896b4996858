"""Background: what must happen though nobody asks for it, in small steps, done by one process at a time.

- sweep      ledgers that no process has in use: dead-letter, pass expired messages, move what is due
- trim       raise the first sequence of partitions, and delete rows below it
- clear      delete what deleted partitions and ledgers left behind, old deduplication ids, old writers
- redrive    carry on with tasks, also those of a process that died
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rowlock import ids, limits
from rowlock.broker.administer import RemainsDocument
from rowlock.broker.catalog import Partition, Subscription, Topic
from rowlock.broker.expire import Expire
from rowlock.broker.retention import Trim, longest_ms
from rowlock.broker.work import Outdated
from rowlock.errors import NotFound, RowlockError
from rowlock.ledger import stored
from rowlock.ledger.ledger import Ledger
from rowlock.ledger.page import SHIFT
from rowlock.settings import UNTIL_ACKNOWLEDGED
from rowlock.store.faults import StoreFault
from rowlock.store.port import Cursor, PartitionRow, Position

if TYPE_CHECKING:
    from rowlock.broker.broker import Broker

log = logging.getLogger("rowlock.background")

LEASE_MS = 10_000
STEP_SECONDS = 1.0
TRIM_SECONDS = 5.0
CLEAR_SECONDS = 30.0
TRIM_MESSAGES = 1_000
"""Acknowledged messages that gather before a partition is trimmed, unless some time passed."""
WRITER_MS = 24 * 3600 * 1000


class Background:
    """One process's share of the background work: all of it, while it holds the lease."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._holder = ids.stamp()
        self._task: asyncio.Task[None] | None = None
        self._stamps: dict[Cursor, tuple[int, int | None]] = {}
        """Of each ledger with messages outstanding: its stamp, and when its next timer fires."""
        self._swept: dict[int, int] = {}
        """Of each partition: below which sequence the rows are deleted."""
        self._trimmed: dict[int, float] = {}

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock background")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        every: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (STEP_SECONDS, self.sweep),
            (TRIM_SECONDS, self.trim),
            (CLEAR_SECONDS, self.clear),
        ]
        due = [0.0 for _ in every]
        while True:
            await asyncio.sleep(STEP_SECONDS * random.uniform(0.8, 1.2))
            with suppress(StoreFault):
                if not await self._broker.store.control.lease("background", self._holder, LEASE_MS):
                    continue
                for at, (seconds, step) in enumerate(every):
                    if time.monotonic() >= due[at]:
                        due[at] = time.monotonic() + seconds
                        await self._safely(step)

    async def _safely(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except (StoreFault, RowlockError, Outdated) as fault:
            log.warning("%s is put off: %s", step.__name__, fault)
        except Exception:
            log.exception("%s failed in a way that it should not.", step.__name__)

    # Sweep

    async def sweep(self) -> None:
        """Look at every ledger, in bounded steps, without a lock."""
        broker = self._broker
        for number in range(broker.store.lanes):
            async with broker.watch.lane(number) as lane:
                broker.watch.move_due(await lane.parts_due(broker.clock.now()))
            after: Cursor = (0, 0)
            while True:
                async with broker.watch.lane(number) as lane:
                    cursors = await lane.all_cursors(after, limits.SWEEP_STEP_CURSORS)
                    positions = await lane.positions(cursors) if cursors else []
                for position in positions:
                    if position.outstanding or position.frontier <= position.last:
                        await self._look_at(number, position)
                if len(cursors) < limits.SWEEP_STEP_CURSORS:
                    break
                after = cursors[-1]

    async def _look_at(self, number: int, position: Position) -> None:
        """A ledger with something before it: whether a timer of it is due, or its next message has expired."""
        broker = self._broker
        cursor = (position.part, position.sub)
        stamp, time_due = self._stamps.get(cursor, (0, None))
        now = broker.clock.now()
        if position.outstanding and stamp != position.stamp:
            time_due = await self._next_time(number, cursor, now)
            self._stamps[cursor] = (position.stamp, time_due)
        expired = False
        if position.frontier <= position.last:
            async with broker.watch.lane(number) as lane:
                live, _ = await lane.first_live(position.part, position.frontier, 1, now)
            expired = live > position.frontier
        if expired or (position.outstanding and time_due is not None and time_due <= now):
            self._stamps.pop(cursor, None)
            broker.begin(self.expire(cursor))

    async def _next_time(self, number: int, cursor: Cursor, now: int) -> int | None:
        """When something of a ledger must be dead-lettered; None: nothing waits for that."""
        subscription = await self._broker.catalog.subscription_by_id(cursor[1])
        if subscription.settings.dead_letter is None:
            return None
        async with self._broker.watch.lane(number) as lane:
            rows = await lane.pages(cursor)
        ledger = Ledger(msgspec.structs.replace(subscription.rules, order="none", fair=False))
        if not rows:
            return None
        stored.install(ledger, stored.incoming(ledger, rows), {})
        ledger.advance(now)
        return now if ledger.dying or (ledger.open and subscription.settings.dead_letter_expired) else ledger.next_time()

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

    async def trim(self) -> None:
        """Retention, topic by topic."""
        async for topic in self._topics():
            subscriptions = await self._broker.catalog.subscriptions_of(topic.id)
            for partition in topic.partitions:
                await self._trim(topic, partition, subscriptions)

    async def _trim(self, topic: Topic, partition: Partition, subscriptions: list[Subscription]) -> None:
        broker = self._broker
        async with broker.watch.lane(partition.lane) as lane:
            rows = await lane.partition_rows([partition.part])
            if not rows:
                return
            row = rows[0]
            positions = await lane.positions([(partition.part, one.id) for one in subscriptions])
            old = await lane.sequence_at(partition.part, broker.clock.now() - longest_ms(topic.settings))
        done = min([await self._lowest(partition, one) for one in positions], default=0)
        if topic.settings.retention != UNTIL_ACKNOWLEDGED:
            done = 0
        gain = max(done, old) - row.first
        waited = time.monotonic() - self._trimmed.get(partition.part, 0.0)
        if gain >= TRIM_MESSAGES or (gain > 0 and waited > CLEAR_SECONDS):
            self._trimmed[partition.part] = time.monotonic()
            row = await self._raise_first(topic, partition, row)
        await self._delete_below(partition, row)

    async def _lowest(self, partition: Partition, position: Position) -> int:
        """About the first sequence that a subscription is not done with: never too high."""
        if not position.outstanding:
            return position.frontier
        async with self._broker.watch.lane(partition.lane) as lane:
            rows = await lane.pages((position.part, position.sub))
        held = [row.page for row in rows if row.data is not None and any(row.data[-limits.PAGE_MESSAGES :])]
        return min(held, default=position.frontier >> SHIFT) << SHIFT

    async def _raise_first(self, topic: Topic, partition: Partition, row: PartitionRow) -> PartitionRow:
        broker = self._broker
        swept = self._swept.get(partition.part, row.swept)

        async def trim() -> int:
            fresh = await broker.catalog.topic(topic.name)
            subscriptions = await broker.catalog.subscriptions_of(fresh.id)
            try:
                work = Trim(fresh, partition, subscriptions, swept)
                work.channel = (partition.lane, fresh.durability)
                first: int = await broker.carry(work)
            except Outdated:
                for one in subscriptions:
                    broker.catalog.forget(one.name)
                raise
            return first

        row.first = await broker.current(topic.name, trim)
        return row

    async def _delete_below(self, partition: Partition, row: PartitionRow) -> None:
        """Delete the rows of a partition below its first sequence, step by step; the newest row always stays."""
        stop = min(row.first, row.last)
        swept = max(self._swept.get(partition.part, 0), row.swept)
        while swept < stop:
            upto = min(swept + limits.DELETE_STEP_MESSAGES, stop)
            async with self._broker.watch.lane(partition.lane) as lane:
                await lane.delete_messages(partition.part, swept, upto)
            swept = self._swept[partition.part] = upto
            await asyncio.sleep(0)

    # Clear

    async def clear(self) -> None:
        """Delete what deleted things left behind, and what is remembered for a time only."""
        broker = self._broker
        for entry in await broker.store.control.list("remains"):
            document = msgspec.json.decode(entry.document, type=RemainsDocument)
            while True:
                async with broker.watch.lane(document.lane) as lane:
                    gone = await lane.delete_remains(document.part, document.sub, limits.DELETE_STEP_MESSAGES)
                if not gone:
                    break
            await broker.store.control.apply(removes=[entry])
        bucket_ms = limits.DEDUPLICATION_BUCKET_SECONDS * 1000
        async for topic in self._topics():
            window_ms = int(topic.settings.deduplication_window * 1000)
            bucket = (broker.clock.now() - window_ms) // bucket_ms
            for partition in topic.partitions:
                async with broker.watch.lane(partition.lane) as lane:
                    while await lane.delete_deduplicated(partition.part, bucket, limits.DEDUPLICATION_STEP_ROWS):
                        pass
        for number in range(broker.store.lanes):
            async with broker.watch.lane(number) as lane:
                await lane.delete_writers(broker.clock.now() - WRITER_MS)

    async def _topics(self) -> AsyncIterator[Topic]:
        after = ""
        while entries := await self._broker.store.control.list("topic", after=after, limit=100):
            for topic in await self._broker.catalog.topics_of(entries):
                yield topic
            after = entries[-1].name
