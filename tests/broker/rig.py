"""Brokers on one database for tests: one clock for all, stops inside their transactions, and a guard of lanes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import rowlock
from rowlock.store.faults import Lost

if TYPE_CHECKING:
    from rowlock import Broker, ClaimedMessage
    from rowlock.broker.broker import Broker as Engine
    from rowlock.broker.cycle import Cycle
    from rowlock.store.port import Attempt, Changes, Durability, Lane, Scope, View

DEADLINE_SECONDS = 20
LANE = re.compile(r"\b(?:rowlock_lane_?|lane)(\d+)(?=[._])")

_numbers = count(1)


class Stop:
    """A place in a transaction where a broker stands still until it may go on."""

    def __init__(self, place: str, then: Callable[[Lane], Awaitable[None]] | None = None):
        self.place = place
        self.then = then
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    async def wait(self) -> None:
        """Wait until the broker has come here."""
        await asyncio.wait_for(self.reached.wait(), DEADLINE_SECONDS)

    def release(self) -> None:
        self.released.set()


class SteppedLane:
    """A lane that can be stopped, or lose its connection, at the places `before`/`after` `lock`, `write`, `attempt`."""

    def __init__(self, lane: Lane, stage: Stage):
        self.real = lane
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    @property
    def compares(self) -> bool:
        return self.real.compares and not self._stage.always_lock

    async def lock(self, scope: Scope) -> View:
        await self._stage.at("before lock", self.real)
        view = await self.real.lock(scope)
        await self._stage.at("after lock", self.real)
        return view

    async def write(self, changes: Changes) -> None:
        await self._stage.at("before commit", self.real)
        await self.real.write(changes)
        await self._stage.at("after commit", self.real)

    async def attempt(self, changes: Changes) -> Attempt:
        await self._stage.at("before commit", self.real)
        attempt = await self.real.attempt(changes)
        if attempt.agreed:
            await self._stage.at("after commit", self.real)
        return attempt


class Stage:
    """The stops of one broker."""

    def __init__(self) -> None:
        self.always_lock = False
        self.stops: list[Stop] = []
        self.lanes: list[Lane] = []
        self.refuse_connections = False

    async def at(self, place: str, lane: Lane) -> None:
        for stop in self.stops:
            if stop.place == place:
                self.stops.remove(stop)
                stop.reached.set()
                if stop.then is not None:
                    await stop.then(lane)
                await asyncio.wait_for(stop.released.wait(), DEADLINE_SECONDS)
                return


class Rig:
    """Any number of brokers on one database. Their background work runs only when a test says so."""

    def __init__(self, url: str, lanes: int = 1):
        self.url = url
        self.lanes = lanes
        self.shift_ms = 0
        self.brokers: list[Broker] = []
        self.trespasses: list[str] = []
        """Statements on one lane's connection that name another lane's tables."""
        self.statements = 0
        """How many were sent on lanes' connections."""
        self._stages: dict[int, Stage] = {}

    async def open(self, *, background: bool = False, **options: Any) -> Broker:
        options.setdefault("owner", "tester")
        broker = rowlock.open(self.url, lanes=self.lanes, **options)
        self._instrument(broker._engine)
        self.brokers.append(broker)
        await broker.open()
        self._shift_control(broker._engine)
        if not background:
            assert broker._engine._background is not None
            await broker._engine._background.close()
        return broker

    async def close(self) -> None:
        for broker in self.brokers:
            for stop in self.stage(broker).stops:
                stop.release()
            await broker.close()

    async def crash(self, broker: Broker) -> None:
        """As if its process had been killed: nothing is carried to its end, no connection closes politely."""
        engine = broker._engine
        engine._closed = True
        self.brokers.remove(broker)
        await broker._redriving.close()
        await broker._delivery.close()
        if engine._background is not None:
            await engine._background.close()
        for task in list(engine._tasks):
            task.cancel()
        for cycle in engine.cycles.values():
            await cycle.abort()
        tasks = [cycle._task for cycle in engine.cycles.values() if cycle._task is not None]
        await asyncio.gather(*tasks, *engine._tasks, return_exceptions=True)
        await engine.timers.close()
        await engine.lanes.close()
        await engine.administer.close()
        await engine.store.close()

    # Time

    async def advance(self, seconds: float) -> None:
        """Move the database's time for every broker, and let their timers see it."""
        self.shift_only_database(seconds)
        for broker in self.brokers:
            engine = broker._engine
            engine.clock.heard(await engine.store.control.clock())
            engine.timers._set.set()

    def shift_only_database(self, seconds: float) -> None:
        """Move the database's time; what the brokers think of it follows with its next answer."""
        self.shift_ms += round(seconds * 1000)
        for broker in self.brokers:
            for lane in self.stage(broker).lanes:
                lane.clock_shift = self.shift_ms

    # Stops

    def stage(self, broker: Broker) -> Stage:
        return self._stages[id(broker._engine)]

    def stop(self, broker: Broker, place: str) -> Stop:
        """The broker will stand still there, once. `after lock` makes it decide under lock, on any database."""
        if place.endswith("lock"):
            self.stage(broker).always_lock = True
        stop = Stop(place)
        self.stage(broker).stops.append(stop)
        return stop

    def lose(self, broker: Broker, place: str) -> Stop:
        """The broker's connection is lost there, once: at COMMIT, so that its outcome is unknown."""

        async def lose(lane: Lane) -> None:
            await lane.close()
            raise Lost(f"lost {place}", committing=place.endswith("commit"))

        stop = Stop(place, lose)
        self.stage(broker).stops.append(stop)
        return stop

    def _instrument(self, engine: Engine) -> None:
        stage = self._stages[id(engine)] = Stage()
        connect = engine.store.lane

        async def lane(number: int, durability: Durability) -> Any:
            if stage.refuse_connections:
                raise Lost("refused by the test")
            made = await connect(number, durability)
            made.clock_shift = self.shift_ms
            stage.lanes.append(made)
            self._guard(made, number)
            return SteppedLane(made, stage)

        engine.store.lane = lane  # type: ignore[method-assign]

    def _shift_control(self, engine: Engine) -> None:
        control = engine.store.control
        clock = control.clock

        async def shifted() -> int:
            return await clock() + self.shift_ms

        control.clock = shifted  # type: ignore[method-assign]

    # The guard

    def _guard(self, lane: Any, number: int) -> None:
        """Note every statement of this lane's connection that names another lane's tables."""

        def note(sql: object) -> None:
            self.statements += 1
            text = str(getattr(sql, "query", sql))
            for other in set(LANE.findall(text)) - {str(number)}:
                self.trespasses.append(f"lane {number} used lane {other}: {text:.200}")

        connection = lane._connection
        if hasattr(connection, "add_query_logger"):  # PostgreSQL
            connection.add_query_logger(note)
        elif hasattr(connection, "_database"):  # SQLite
            connection._database.set_trace_callback(note)
        else:  # MariaDB
            query = connection._query

            async def noting(text: str, answers: list[Any]) -> None:
                note(text)
                await query(text, answers)

            connection._query = noting


def unique(prefix: str = "q") -> str:
    return f"{prefix}{next(_numbers)}"


def cycles(broker: Broker) -> list[Cycle]:
    return list(broker._engine.cycles.values())


def bodies(messages: list[ClaimedMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def drain(broker: Broker, name: str, most: int = 1000) -> list[bytes]:
    """Claim and settle until there is nothing."""
    found: list[bytes] = []
    while messages := await broker.claim(name, most, visibility_timeout=600):
        found += bodies(messages)
        await broker.settle(messages)
    return found


async def eventually(condition: Callable[[], Awaitable[object]], seconds: float = DEADLINE_SECONDS) -> None:
    """Ask until it is so."""
    async with asyncio.timeout(seconds):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.005)


async def quiet(broker: Broker) -> None:
    """Wait until what the broker began by itself is done."""
    await broker._engine.settled()


async def sweep(broker: Broker) -> None:
    """One round of the background's look at every ledger, with what it begins."""
    background = broker._engine._background
    assert background is not None
    await background.move_due()
    await background.sweep()
    await quiet(broker)


async def trim(broker: Broker, name: str) -> None:
    """Retention, now, in every partition of a topic."""
    background = broker._engine._background
    assert background is not None
    for partition in (await broker._engine.catalog.topic(name)).partitions:
        await background.trim(partition.part)


async def clear(broker: Broker) -> None:
    """One round of deleting what was left behind."""
    background = broker._engine._background
    assert background is not None
    await background.clear()


async def stored(broker: Broker, name: str) -> list[int]:
    """The sequences that a topic's log holds, all partitions together."""
    topic = await broker._engine.catalog.topic(name)
    found: list[int] = []
    for partition in topic.partitions:
        async with broker._engine.lanes.use(partition.lane) as lane:
            seqs = [(partition.part, seq) for seq in range(1, 5000)]
            found += [message.seq for message in await lane.messages([], seqs)]
    return found
