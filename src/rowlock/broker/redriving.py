"""Redriving: tasks that move a queue's messages elsewhere. Progress is stored with each step; any broker carries on."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from rowlock import ids, limits
from rowlock.broker.catalog import Subscription, Topic
from rowlock.broker.redrive import Move, Stuck
from rowlock.broker.work import Outdated
from rowlock.clock import moment
from rowlock.errors import Defect, InUse, InvalidArgument, NotFound, RowlockError
from rowlock.model import Redrive
from rowlock.settings import check_count, check_name
from rowlock.store.port import Entry

if TYPE_CHECKING:
    from rowlock.broker.broker import Broker

log = logging.getLogger("rowlock.redrive")

LEASE_MS = 10_000
STEP_SECONDS = 0.1
LOOK_SECONDS = 4.0


class RedriveDocument(Struct):
    source: int
    source_name: str
    destination: str | None
    rate: float | None
    to_move: int
    state: str = "running"
    problem: str | None = None


class Redriving:
    """All redrives of this database, as one process sees and serves them."""

    def __init__(self, broker: Broker):
        self._broker = broker
        self._holder = ids.stamp()
        self._task: asyncio.Task[None] | None = None
        self._carrying: dict[int, asyncio.Task[None]] = {}
        """Redrives that this process carries on, side by side: a slow rate holds up no other."""
        self._wake = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock redrive")

    async def close(self) -> None:
        tasks = [*self._carrying.values(), *([self._task] if self._task else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def begin(self, source: str, destination: str | None, rate: float | None) -> Redrive:
        broker, control = self._broker, self._broker.store.control
        subscription = await broker.catalog.subscription(source)
        if destination is not None:
            if destination == source:
                raise InvalidArgument(f"{source!r} cannot be redriven into itself.")
            await broker.catalog.topic(destination)
        if rate is not None and not _is_rate(rate):
            raise InvalidArgument(
                f"rate is {rate!r:.80}: it must be more than 0 and at most "
                f"{limits.REDRIVE_RATE_MAX_PER_SECOND} per second."
            )
        for task in await self.tasks(source):
            if task.state == "running":
                raise InUse(f"{source!r} is being redriven already, by task {task.id}.")
        to_move = 0
        for channel_lane, cursors in _by_lane(subscription).items():
            async with broker.lanes.use(channel_lane) as lane:
                for one in await lane.positions(cursors):
                    to_move += one.last - one.frontier + 1 + one.outstanding
        document = RedriveDocument(subscription.id, source, destination, rate, to_move)
        id_ = await control.allocate(1)
        entry = Entry("redrive", id_, f"{id_:020}", 1, _json(document), await control.clock(), "", subscription.id)
        await control.apply(inserts=[entry])
        self._wake.set()
        return await self._told(entry)

    async def tasks(self, source: str | None) -> list[Redrive]:
        if source is not None:
            check_name(source)
        tasks = [await self._told(entry) for entry in await self._entries()]
        return [task for task in reversed(tasks) if source is None or task.source == source]

    async def cancel(self, task: int) -> Redrive:
        """Stop a redrive; what it has moved stays moved."""
        while True:
            entry = await self._entry(task)
            document = msgspec.json.decode(entry.document, type=RedriveDocument)
            if document.state != "running":
                raise InvalidArgument(f"Redrive {task} is {document.state}, and cannot be cancelled.")
            if ended := await self._end(entry, "cancelled", None):
                return await self._told(ended)

    async def _entries(self) -> list[Entry]:
        found: list[Entry] = []
        while more := await self._broker.store.control.list("redrive", after=found[-1].name if found else ""):
            found += more
        return found

    async def _entry(self, task: int) -> Entry:
        check_count("task", task, 0, limits.SEQUENCE_MAX)
        for entry in await self._broker.store.control.get([task]):
            if entry.kind == "redrive":
                return entry
        raise NotFound(f"There is no redrive with the id {task}.")

    async def _told(self, entry: Entry) -> Redrive:
        document = msgspec.json.decode(entry.document, type=RedriveDocument)
        moved = 0
        for number in range(self._broker.store.lanes):
            async with self._broker.lanes.use(number) as lane:
                moved += await lane.progress(entry.id)
        started = moment(entry.created_at)
        return Redrive(
            id=entry.id,
            source=document.source_name,
            destination=document.destination,
            state=document.state,
            moved=moved,
            to_move=document.to_move,
            rate=document.rate,
            started_at=started,
            problem=document.problem,
        )

    async def _end(self, entry: Entry, state: str, problem: str | None) -> Entry | None:
        document = msgspec.json.decode(entry.document, type=RedriveDocument)
        document.state, document.problem = state, problem
        ended = msgspec.structs.replace(entry, version=entry.version + 1, document=_json(document))
        return ended if await self._broker.store.control.apply(replaces=[ended]) else None

    # Carrying on

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._look()
            except RowlockError as fault:
                log.warning("Redrives are looked for later: %s", fault)

    async def _look(self) -> None:
        """Begin what nobody carries on."""
        for entry in await self._entries():
            document = msgspec.json.decode(entry.document, type=RedriveDocument)
            if document.state == "running" and entry.id not in self._carrying and await self._lease(entry):
                task = asyncio.get_running_loop().create_task(self._carry_safely(entry, document))
                self._carrying[entry.id] = task
                task.add_done_callback(partial(self._carried, entry.id))

    def _carried(self, task_id: int, _: object) -> None:
        del self._carrying[task_id]

    async def _carry_safely(self, entry: Entry, document: RedriveDocument) -> None:
        try:
            await self._carry_on(entry, document)
        except (RowlockError, Outdated) as fault:
            log.warning("A redrive is put off: %s", fault)

    async def _lease(self, entry: Entry) -> bool:
        return await self._broker.store.control.lease(f"redrive {entry.id}", self._holder, LEASE_MS)

    async def _carry_on(self, entry: Entry, document: RedriveDocument) -> None:
        """Move step by step, until nothing is left of what there was, or somebody cancels it."""
        left = document.to_move - (await self._told(entry)).moved
        while left > 0:
            started = time.monotonic()
            if not await self._lease(entry) or (await self._entry(entry.id)).version != entry.version:
                return
            step = limits.MOVE_STEP_MESSAGES
            if document.rate is not None:
                step = max(1, min(step, int(document.rate * STEP_SECONDS)))
            try:
                moved = await self._step(entry.id, document, min(step, left))
            except (Stuck, NotFound) as problem:
                await self._end(entry, "failed", str(problem))
                return
            if not moved:
                break
            left -= moved
            if document.rate is not None:
                await asyncio.sleep(max(0.0, moved / document.rate - (time.monotonic() - started)))
        await self._end(entry, "completed", None)

    async def _step(self, task: int, document: RedriveDocument, limit: int) -> int:
        """Move some messages of the first ledger that has any."""
        broker = self._broker

        async def step() -> int:
            subscription = await broker.catalog.subscription_by_id(document.source)
            destination = None if document.destination is None else await broker.catalog.topic(document.destination)
            targets = {destination.name: destination} if destination else await self._origins(subscription)
            topics = {topic.id: topic for topic in subscription.topics}
            for source in subscription.sources:
                work = Move(task, subscription, (source.part, subscription.id), destination, targets, limit)
                work.channel = (source.lane, topics[source.topic].durability)
                try:
                    moved: int = await broker.carry(work)
                except Outdated:
                    for name in targets:
                        broker.catalog.forget(name)
                    raise
                except Defect as fault:
                    if isinstance(fault.__cause__, Stuck):
                        raise fault.__cause__ from None
                    raise
                if moved:
                    return moved
            return 0

        return await broker.current(document.source_name, step)

    async def _origins(self, subscription: Subscription) -> dict[str, Topic]:
        """The topics of all subscriptions that have this queue as their dead-letter queue."""
        broker = self._broker
        found: dict[str, Topic] = {}
        after = ""
        while entries := await broker.store.control.list("subscription", after=after, limit=1000):
            after = entries[-1].name
            for entry in entries:
                if msgspec.json.decode(entry.document)["settings"].get("dead_letter") == subscription.name:
                    for topic in (await broker.catalog.subscription(entry.name)).topics:
                        found[topic.name] = topic
        return found


def _is_rate(rate: object) -> bool:
    return (
        isinstance(rate, (int, float)) and not isinstance(rate, bool) and 0 < rate <= limits.REDRIVE_RATE_MAX_PER_SECOND
    )


def _by_lane(subscription: Subscription) -> dict[int, list[tuple[int, int]]]:
    lanes: dict[int, list[tuple[int, int]]] = {}
    for source in subscription.sources:
        lanes.setdefault(source.lane, []).append((source.part, subscription.id))
    return lanes


def _json(document: Struct) -> str:
    return msgspec.json.encode(document).decode()
