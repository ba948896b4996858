"""Delivery: how messages reach claims that wait for them.

A waiting claim is woken by a publish of this process (and then shares its cycle), by a message that becomes visible
again, by a hint of another process, or by the one bounded query that asks for all of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence

from rowlock import limits
from rowlock.broker.broker import Broker, turns
from rowlock.broker.catalog import Source, Subscription
from rowlock.broker.cycle import Cycle
from rowlock.broker.draft import Draft
from rowlock.broker.work import Channel, Work
from rowlock.delivery.waiters import Waiter, Waiters
from rowlock.errors import RowlockError
from rowlock.model import Claimed
from rowlock.settings import check_seconds
from rowlock.store.port import Cursor, Position

log = logging.getLogger("rowlock.delivery")

HINT_PAUSE_SECONDS = 0.05
"""Other processes get at most one hint in this time."""
TROUBLE_SECONDS = 1.0


class Delivery:
    """The waiting claims of one process."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self.waiters = Waiters(broker.submit)
        self._hints: set[int] = set()
        self._hint_set = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        broker.listener = self

    def start(self) -> None:
        loop, store = asyncio.get_running_loop(), self._broker.store
        self._tasks = [loop.create_task(self._poll_for_ever(), name="rowlock poll")]
        if store.hints:
            self._tasks.append(loop.create_task(self._hint_for_ever(), name="rowlock hints"))
            self._tasks.append(loop.create_task(store.listen(self._heard), name="rowlock listen"))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Claims that may wait

    async def claim(
        self, name: str, limit: int = 1, *, visibility_timeout: float | None = None, wait: float = 0
    ) -> list[Claimed]:
        """Hand out up to `limit` messages; wait for the first one, if there is none, for up to `wait` seconds."""
        check_seconds("wait", wait, limits.WAIT_MAX_SECONDS)
        if not wait:
            return await self._broker.claim(name, limit, visibility_timeout=visibility_timeout)
        deadline = time.monotonic() + wait

        async def claim() -> list[Claimed]:
            subscription, timeout_ms = await self._broker.claiming(name, limit, visibility_timeout)
            return await self._claim_or_wait(subscription, limit, timeout_ms, max(0.0, deadline - time.monotonic()))

        return await self._broker.current(name, claim)

    async def _claim_or_wait(
        self, subscription: Subscription, limit: int, timeout_ms: int, seconds: float
    ) -> list[Claimed]:
        groups = turns(subscription.sources)
        by_part = {source.part: sources for sources in groups for source in sources}
        channels = {source.part: (source.lane, source.durability) for source in subscription.sources}

        def make(part: int) -> Work | None:
            sources = by_part.get(part)
            return None if sources is None else self._broker.claim_work(subscription, sources, limit, timeout_ms)

        waiter = Waiter(subscription.id, make, self._broker.give_back, channels)
        if all(self._is_idle(subscription, source) for source in subscription.sources):
            return await self.waiters.wait(waiter, seconds, [])
        return await self.waiters.wait(waiter, seconds, [sources[0].part for sources in groups])

    def _is_idle(self, subscription: Subscription, source: Source) -> bool:
        """Whether, by what is remembered, nothing is there, and no process has hinted at a change since. The next query
        for all waiters tells whether it is so."""
        cycle = self._broker.cycles.get((source.lane, source.durability))
        partition = cycle.memory.partitions.get(source.part) if cycle is not None else None
        if cycle is None or partition is None or partition.doubtful:
            return False
        known = cycle.memory.ledgers.get((source.part, subscription.id))
        if known is None or known.version != subscription.version:
            return False
        return not known.ledger.open and known.ledger.frontier > partition.last

    # What the broker tells

    def joining(self, cycle: Cycle, appended: dict[int, int]) -> list[Work]:
        """Waiting claims that share the cycle which appends their messages."""
        works: list[Work] = []
        for part, count in appended.items():
            for sub in self.waiters.subs_of(part):
                for work in self.waiters.trying(part, sub, count):
                    if work.channel == cycle.channel:
                        works.append(work)
                    else:
                        self._broker.submit(work)
        return works

    def carried(self, cycle: Cycle, draft: Draft) -> None:
        """A cycle was committed: wake those for whom it has something, here and elsewhere."""
        memory, touched = cycle.memory, draft.touched_cursors
        changed = draft.appended_parts
        for cursor in touched:
            remembered, partition = memory.ledgers.get(cursor), memory.partitions.get(cursor[0])
            if remembered is not None:
                ready = remembered.ledger.ready(partition.last if partition else 0)
                if ready:
                    changed.add(cursor[0])
                    self.opened(cursor, ready)
        for part in draft.appended_parts:
            for sub in self.waiters.subs_of(part):
                if (part, sub) not in touched:
                    self.opened((part, sub), 1)
        if changed and self._broker.store.hints:
            self._hints |= changed
            self._hint_set.set()

    def opened(self, cursor: Cursor, count: int) -> None:
        """So many messages may be handed out."""
        self.waiters.wake(*cursor, most=count)

    # Other processes

    def _heard(self, parts: Sequence[int] | None) -> None:
        """Another process hints that partitions changed (None: any)."""
        self._broker.doubt(parts)
        waiters = self.waiters
        cursors = (
            waiters.cursors() if parts is None else [(part, sub) for part in parts for sub in waiters.subs_of(part)]
        )
        for cursor in cursors:
            self.opened(cursor, 1)

    async def _hint_for_ever(self) -> None:
        while True:
            await self._hint_set.wait()
            self._hint_set.clear()
            parts, self._hints = sorted(self._hints), set()
            await self._broker.store.hint(parts)
            await asyncio.sleep(HINT_PAUSE_SECONDS)

    async def _poll_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._broker.store.hint_poll_ms / 1000)
            try:
                await self._poll()
            except RowlockError:
                await asyncio.sleep(TROUBLE_SECONDS)
            except Exception:
                log.exception("The query for waiting claims failed in a way that it should not.")
                await asyncio.sleep(TROUBLE_SECONDS)

    async def _poll(self) -> None:
        """One query for all waiters of a lane: wake those for whom something may have come."""
        waiting = self.waiters.cursors()
        if not waiting:
            return
        channels = self._channels(waiting)
        for number in {lane for lane, _ in channels.values()}:
            cursors = [cursor for cursor, (lane, _) in channels.items() if lane == number]
            async with self._broker.lanes.use(number) as lane:
                positions = await lane.positions(cursors)
            for position in positions:
                self._compare(position, channels)

    def _channels(self, cursors: Iterable[Cursor]) -> dict[Cursor, Channel]:
        found = {cursor: self.waiters.channel(cursor) for cursor in cursors}
        return {cursor: channel for cursor, channel in found.items() if channel is not None}

    def _compare(self, position: Position, channels: dict[Cursor, Channel]) -> None:
        cursor = (position.part, position.sub)
        memory = self._broker.cycle(channels[cursor]).memory
        remembered, partition = memory.ledgers.get(cursor), memory.partitions.get(position.part)
        is_known = remembered is not None and remembered.is_at(position)
        if partition is not None:
            partition.heard_of(position.last)
        behind = position.last - position.frontier + 1
        if behind > 0 or (position.outstanding and not is_known):
            self.opened(cursor, max(1, behind))
