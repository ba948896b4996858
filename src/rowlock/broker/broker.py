"""The broker: every verb, by name, for the layers above. It finds the channel, makes the work, and waits for its
cycle."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from rowlock import ids, limits
from rowlock.broker.administer import Administer
from rowlock.broker.background import Background
from rowlock.broker.catalog import Catalog, Source, Subscription, Topic
from rowlock.broker.claim import Claim
from rowlock.broker.cycle import Cycle
from rowlock.broker.draft import Draft
from rowlock.broker.lanes import Lanes
from rowlock.broker.publish import Publishing
from rowlock.broker.seek import EARLIEST, LATEST, Purge, Seek
from rowlock.broker.settle import Extend, GiveBack, Release, Settle
from rowlock.broker.timers import Timers
from rowlock.broker.work import Channel, Outdated, Work
from rowlock.clock import DatabaseClock
from rowlock.errors import Closed, InvalidArgument, NotFound, RowlockError, Unavailable
from rowlock.ids import Receipt
from rowlock.ledger.rules import Verdict
from rowlock.model import Claimed, Message, Published
from rowlock.settings import check_count, check_seconds
from rowlock.store.faults import Lost
from rowlock.store.port import Cursor, Durability, Store

log = logging.getLogger("rowlock")

_T = TypeVar("_T")
OUTDATED_TRIES = 20
SOURCES_PER_CLAIM = 32
_TIME_MAX_SECONDS = 2**40


class Listener(Protocol):
    """Who wants to know that messages may be handed out."""

    def joining(self, cycle: Cycle, appended: dict[int, int]) -> list[Work]: ...

    def carried(self, cycle: Cycle, draft: Draft) -> None: ...

    def opened(self, cursor: Cursor, count: int) -> None: ...


class Nobody:
    """No listener."""

    def joining(self, cycle: Cycle, appended: dict[int, int]) -> list[Work]:
        return []

    def carried(self, cycle: Cycle, draft: Draft) -> None:
        pass

    def opened(self, cursor: Cursor, count: int) -> None:
        pass


class Broker:
    """One process's view of one database."""

    def __init__(
        self,
        store: Store,
        *,
        owner: str = "",
        create_on_use: bool = False,
        patience: float = limits.PATIENCE_SECONDS,
        background: bool = True,
    ):
        self.store = store
        self.clock = DatabaseClock()
        self.cycles: dict[Channel, Cycle] = {}
        self.lanes = Lanes(store)
        self.timers = Timers(self)
        self.listener: Listener = Nobody()
        self.secret = b""
        self._owner = owner
        self._create_on_use = create_on_use
        self._patience = patience
        self._background = Background(self) if background else None
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = self._closed = False

    # Life

    async def open(self, lanes: int | None = None) -> None:
        try:
            await self.store.open(lanes)
            self.catalog = Catalog(self.store.control)
            self.administer = Administer(self.store, self.catalog, self._owner)
            self.secret = await self.store.control.secret()
            self.clock.heard(await self.store.control.clock())
        except BaseException:
            await self.store.close()
            raise
        self._open = True
        self.timers.start()
        if self._background is not None:
            self._background.start()

    async def close(self) -> None:
        """Carry what has been submitted, then let everything go. One that could not be opened has nothing to let go."""
        self._closed = True
        if not self._open:
            return
        if self._background is not None:
            await self._background.close()
        await self.timers.close()
        await self.settled()
        for cycle in self.cycles.values():
            await cycle.close()
        await self.lanes.close()
        await self.administer.close()
        await self.store.close()

    async def settled(self) -> None:
        """Wait until nothing that was begun without a caller is under way."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    # Works

    def cycle(self, channel: Channel) -> Cycle:
        cycle = self.cycles.get(channel)
        if cycle is None:
            lane, durability = channel

            async def connect() -> Any:
                self.catalog.forget_all()  # a connection was lost: the database may be behind what is cached
                return await self.store.lane(lane, durability)

            cycle = self.cycles[channel] = Cycle(connect, self.clock, self, self._patience, channel)
        return cycle

    def joining(self, cycle: Cycle, appended: dict[int, int]) -> list[Work]:
        """See `cycle.Watcher`."""
        return self.listener.joining(cycle, appended)

    def carried(self, cycle: Cycle, draft: Draft) -> None:
        """See `cycle.Watcher`."""
        self.timers.carried(cycle, draft)
        self.listener.carried(cycle, draft)

    def doubt(self, parts: Sequence[int] | None) -> None:
        """Another process hints that it changed these partitions (None: any)."""
        for cycle in self.cycles.values():
            known = cycle.memory.partitions
            for part in known if parts is None else parts:
                if part in known:
                    known[part].doubtful = True

    def submit(self, work: Work) -> None:
        self.cycle(work.channel).submit(work)

    async def carry(self, work: Work) -> Any:
        """Submit a work and wait for its answer. A caller that is cancelled leaves; what it was handed is given
        back."""
        self.submit(work)
        try:
            return await work.future
        except asyncio.CancelledError:
            if work.is_answered:
                work.abandoned(work.future.result())
            raise

    def begin(self, doing: Awaitable[Any]) -> None:
        """Do something that no caller waits for."""

        async def quietly() -> None:
            try:
                await doing
            except (RowlockError, Outdated) as error:
                log.info("Put off: %s", error)

        task = asyncio.get_running_loop().create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def current(self, name: str, action: Callable[[], Awaitable[_T]]) -> _T:
        """Do what depends on the catalog; where that turns out to be outdated, look again and repeat."""
        if self._closed:
            raise Closed("The broker was closed.")
        patient_until = time.monotonic() + self._patience
        attempt = 0
        while attempt < OUTDATED_TRIES:
            try:
                return await action()
            except Outdated:
                await self._look_again(name, attempt)
                attempt += 1
            except Lost as fault:
                if time.monotonic() > patient_until:
                    raise Unavailable(f"Nothing was stored: the database could not be reached: {fault}") from fault
                await asyncio.sleep(random.uniform(0.05, 0.2))
        raise Unavailable(f"{name!r} is being changed by somebody else; nothing was done.")

    async def _look_again(self, name: str, attempt: int) -> None:
        self.catalog.forget(name)
        if attempt >= 2:
            await self.administer.repair(name)
        if attempt:
            await asyncio.sleep(random.uniform(0, 0.01 * attempt))

    # Publish

    async def publish(
        self, name: str, messages: Sequence[Message]
    ) -> tuple[list[Published | None], list[tuple[int, RowlockError]]]:
        """Store messages. Returns what became of each, and which were refused, with the reason."""
        if len(messages) > limits.PUBLISH_BATCH_MESSAGES:
            raise InvalidArgument(
                f"A batch of {len(messages)} messages is too large: {limits.PUBLISH_BATCH_MESSAGES} are allowed."
            )
        publishing = Publishing(messages)

        async def publish() -> None:
            works = publishing.works(await self._topic_to_use(name), self.clock.now())
            if publishing.refused:
                # By settings that another broker may have changed; what is stored is checked under lock, this is not.
                self.catalog.forget(name)
                works = publishing.works(await self._topic_to_use(name), self.clock.now())
            if self._background is not None:
                self._background.deduplicating.update(
                    part for work in works if work.deduplicates for part in work.parts
                )
            if len(works) == 1:
                publishing.answered(works, [await self.carry(works[0])])
            else:
                outcomes = await asyncio.gather(*(self.carry(work) for work in works), return_exceptions=True)
                publishing.answered(works, outcomes)

        await self.current(name, publish)
        return publishing.published, sorted(publishing.refused.items())

    async def _topic_to_use(self, name: str) -> Topic:
        try:
            return await self.catalog.topic(name)
        except NotFound:
            if not self._create_on_use:
                raise
            await self.administer.create_queue(name, {})
            return await self.catalog.topic(name)

    # Claim

    async def claim(self, name: str, limit: int = 1, *, visibility_timeout: float | None = None) -> list[Claimed]:
        """Hand out up to `limit` messages that are there."""

        async def claim() -> list[Claimed]:
            subscription, timeout_ms = await self.claiming(name, limit, visibility_timeout)
            for sources in turns(subscription.sources):
                claimed: list[Claimed] = await self.carry(self.claim_work(subscription, sources, limit, timeout_ms))
                if claimed:
                    return claimed
            return []

        return await self.current(name, claim)

    async def claiming(self, name: str, limit: int, visibility_timeout: float | None) -> tuple[Subscription, int]:
        """Check what a claim asks for; the subscription, and the timeout in milliseconds."""
        check_count("max_messages", limit, 1, limits.CLAIM_BATCH_MESSAGES)
        subscription = await self._subscription_to_use(name)
        if subscription.settings.reader:
            raise InvalidArgument(f"{name!r} is a reader: it is moved by commit, and nothing is claimed from it.")
        if visibility_timeout is None:
            visibility_timeout = subscription.settings.visibility_timeout
        check_seconds("visibility_timeout", visibility_timeout, limits.VISIBILITY_MAX_SECONDS)
        return subscription, int(visibility_timeout * 1000)

    async def _subscription_to_use(self, name: str) -> Subscription:
        try:
            return await self.catalog.subscription(name)
        except NotFound:
            if not self._create_on_use:
                raise
            await self.administer.create_queue(name, {})
            return await self.catalog.subscription(name)

    def claim_work(self, subscription: Subscription, sources: Sequence[Source], limit: int, timeout_ms: int) -> Claim:
        work = Claim(subscription, sources, limit, timeout_ms, self.give_back)
        work.channel = (sources[0].lane, sources[0].durability)
        return work

    def give_back(self, claimed: Sequence[Claimed]) -> None:
        """Nobody saw these: as if they had not been handed out."""
        if claimed and not self._closed:
            receipts = [one.receipt for one in claimed]
            self.begin(self._hold(receipts, GiveBack))

    # Settle, extend, release

    def receipt(self, claimed: Claimed) -> str:
        return ids.seal(claimed.receipt, self.secret)

    def unseal(self, receipt: str) -> Receipt:
        return ids.unseal(receipt, self.secret)

    async def settle(self, receipts: Sequence[Receipt]) -> list[Verdict]:
        return await self._hold(receipts, Settle)

    async def extend(self, receipts: Sequence[Receipt], seconds: float) -> list[Verdict]:
        check_seconds("visibility_timeout", seconds, limits.VISIBILITY_MAX_SECONDS)
        return await self._hold(receipts, lambda one, mine: Extend(one, mine, int(seconds * 1000)))

    async def release(self, receipts: Sequence[Receipt], delay: float | None = None) -> list[Verdict]:
        """Give messages up, to be handed out again after the delay, or as the subscription's backoff says."""
        if delay is not None:
            check_seconds("delay", delay, limits.VISIBILITY_MAX_SECONDS)
        delay_ms = None if delay is None else int(delay * 1000)
        return await self._hold(receipts, lambda one, mine: Release(one, mine, delay_ms))

    async def _hold(
        self, receipts: Sequence[Receipt], make: Callable[[Subscription, Sequence[Receipt]], Work]
    ) -> list[Verdict]:
        """One work per subscription and channel; the verdicts in the order of the receipts."""
        if len(receipts) > limits.SETTLE_BATCH_RECEIPTS:
            raise InvalidArgument(
                f"{len(receipts)} receipts are too many for one call: {limits.SETTLE_BATCH_RECEIPTS} are allowed."
            )
        first = receipts[0].sub if receipts else 0
        if all(receipt.sub == first for receipt in receipts):
            return await self._hold_of(first, receipts, make) if receipts else []
        verdicts: dict[Receipt, Verdict] = {}
        for sub in {receipt.sub for receipt in receipts}:
            mine = [receipt for receipt in receipts if receipt.sub == sub]
            verdicts |= zip(mine, await self._hold_of(sub, mine, make), strict=True)
        return [verdicts[receipt] for receipt in receipts]

    async def _hold_of(
        self, sub: int, receipts: Sequence[Receipt], make: Callable[[Subscription, Sequence[Receipt]], Work]
    ) -> list[Verdict]:
        try:
            name = await self.catalog.name_of(sub)
        except NotFound:
            return [Verdict.STALE] * len(receipts)

        async def hold() -> list[Verdict]:
            try:
                subscription = await self.catalog.subscription(name)
            except NotFound:
                return [Verdict.STALE] * len(receipts)
            if subscription.id != sub:
                return [Verdict.STALE] * len(receipts)
            channels = {source.part: (source.lane, source.durability) for source in subscription.sources}
            used = {channels.get(receipt.part) for receipt in receipts}
            if len(used) == 1 and (channel := used.pop()) is not None:
                work = make(subscription, receipts)
                work.channel = channel
                verdicts: list[Verdict] = await self.carry(work)
                return verdicts
            return await self._hold_apart(subscription, receipts, make, channels)

        return await self.current(name, hold)

    async def _hold_apart(
        self,
        subscription: Subscription,
        receipts: Sequence[Receipt],
        make: Callable[[Subscription, Sequence[Receipt]], Work],
        channels: dict[int, Channel],
    ) -> list[Verdict]:
        """Receipts of several channels. A work that is made again finds what it did before done already."""
        verdicts = dict.fromkeys(receipts, Verdict.STALE)
        for channel in {channels[receipt.part] for receipt in receipts if receipt.part in channels}:
            mine = [receipt for receipt in receipts if channels.get(receipt.part) == channel]
            work = make(subscription, mine)
            work.channel = channel
            verdicts |= zip(mine, await self.carry(work), strict=True)
        return [verdicts[receipt] for receipt in receipts]

    # Seek and purge

    async def seek(self, name: str, to: str | float, *, partition: int | None = None) -> dict[int, int]:
        """Move a subscription: to 'earliest', 'latest', a sequence (int, with a partition), or a time (float, seconds
        since 1970). Returns the new frontiers by partition."""
        frontiers: dict[int, int] = {}
        _check_place(to)
        if partition is not None:
            check_count("partition", partition, 0, limits.PARTITIONS_COUNT - 1)

        async def seek() -> None:
            subscription = await self.catalog.subscription(name)
            sources = [source for source in subscription.sources if partition is None or source.number == partition]
            if not sources:
                raise NotFound(f"{name!r} reads no partition {partition}.")
            if isinstance(to, int) and len(sources) > 1:
                raise InvalidArgument(f"{name!r} reads {len(sources)} partitions: to seek to a sequence, name one.")
            topics = {topic.id: topic for topic in subscription.topics}
            for source in sources:
                target = await self._target(source, to)
                work = Seek(subscription, topics[source.topic], source, target)
                work.channel = (source.lane, source.durability)
                frontiers[source.number] = await self.carry(work)

        await self.current(name, seek)
        return frontiers

    async def _target(self, source: Source, to: str | float) -> int:
        if isinstance(to, str):
            return EARLIEST if to == "earliest" else LATEST
        if isinstance(to, int):
            return to
        async with self.lanes.use(source.lane) as lane:
            return await lane.sequence_at(source.part, int(to * 1000))

    async def purge(self, name: str) -> None:
        """Forget every message that is in the queue now, delayed ones included."""

        async def purge() -> None:
            subscription = await self.catalog.subscription(name)
            topics = {topic.id: topic for topic in subscription.topics}
            for source in subscription.sources:
                topic = topics[source.topic]
                if subscription.queue:
                    work: Work = Purge(subscription, topic, source)
                else:
                    work = Seek(subscription, topic, source, LATEST)
                work.channel = (source.lane, source.durability)
                await self.carry(work)

        await self.current(name, purge)


def turns(sources: Sequence[Source]) -> list[list[Source]]:
    """The sources by channel, from a random one on, in groups that one claim may use."""
    if len(sources) == 1:
        return [list(sources)]
    start = random.randrange(len(sources)) if sources else 0
    groups: dict[tuple[int, Durability], list[Source]] = {}
    for source in [*sources[start:], *sources[:start]]:
        groups.setdefault((source.lane, source.durability), []).append(source)
    return [
        group[at : at + SOURCES_PER_CLAIM]
        for group in groups.values()
        for at in range(0, len(group), SOURCES_PER_CLAIM)
    ]


def _check_place(to: object) -> None:
    """'earliest', 'latest', a sequence (int), or a time (float)."""
    if isinstance(to, str) and to in ("earliest", "latest"):
        return
    if isinstance(to, int) and not isinstance(to, bool) and 0 <= to <= limits.SEQUENCE_MAX:
        return
    if isinstance(to, float) and 0 <= to < _TIME_MAX_SECONDS:
        return
    raise InvalidArgument(
        f"{to!r:.80} is no place to seek to: use 'earliest', 'latest', a sequence up to {limits.SEQUENCE_MAX}, or a "
        "time since 1970."
    )
