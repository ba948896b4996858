"""Many callers of one broker who write down what they were told, and a check of that against what is stored."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

from rowlock.errors import OutcomeUnknown, Unavailable
from rowlock.store.port import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowlock import Broker, ClaimedMessage
    from rowlock.store.port import Stored

DEADLINE_SECONDS = 40.0
HOLD_SECONDS = 3600
"""Nobody's hold runs out while a test lasts: a message that is handed out twice is an error."""


async def until(condition: Callable[[], bool]) -> None:
    """Ask until it is so, without standing in the way of what is waited for."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            if await asyncio.to_thread(condition):
                return
            await asyncio.sleep(0.01)


async def log_of(broker: Broker, name: str) -> list[Stored]:
    """All that a topic's log holds."""

    async def read() -> list[Stored]:
        topic = await broker._engine.catalog.topic(name)
        found: list[Stored] = []
        for partition in topic.partitions:
            async with broker._engine.lanes.use(partition.lane) as lane:
                found += await lane.messages([Wanted(partition.part, 1, 10**9, 10**9)], [])
        return found

    return await broker._engine.current(name, read)


class Load:
    """Publishers and consumers of one queue, whose log a reader that never moves keeps whole."""

    def __init__(self, broker: Broker, name: str, publishers: int = 12, consumers: int = 12):
        self._broker = broker
        self._name = name
        self._counts = (publishers, consumers)
        self._numbers = count(1)
        self._tasks: list[asyncio.Task[None]] = []
        self._publishing = True
        self._consuming = True
        self.acknowledged: dict[bytes, str] = {}
        """Body and id of every message whose publisher was told that it is stored."""
        self.unknown: set[bytes] = set()
        self.refused: set[bytes] = set()
        """Bodies of which the publisher was told that nothing was stored."""
        self.handed: Counter[bytes] = Counter()
        self.held: set[bytes] = set()
        self.settled: set[bytes] = set()
        self.violations: list[str] = []

    @classmethod
    async def begin(cls, broker: Broker, name: str = "load", **settings: str) -> Load:
        await broker.create_queue(name, **settings)
        await broker.create_reader(f"{name}-audit", name)
        load = cls(broker, name)
        publishers, consumers = load._counts
        callers = [load._publish() for _ in range(publishers)] + [load._consume() for _ in range(consumers)]
        load._tasks = [asyncio.create_task(caller) for caller in callers]
        return load

    # Callers

    async def _publish(self) -> None:
        while self._publishing:
            bodies = [b"body %d" % next(self._numbers) for _ in range(1 + next(self._numbers) % 3)]
            try:
                published = await self._broker.publish(self._name, bodies)
            except OutcomeUnknown:
                self.unknown.update(bodies)
            except Unavailable:
                self.refused.update(bodies)
            else:
                self.acknowledged |= {body: one.id for body, one in zip(bodies, published, strict=True)}

    async def _consume(self) -> None:
        while self._consuming:
            try:
                messages = await self._broker.claim(self._name, 5, visibility_timeout=HOLD_SECONDS, wait=0.5)
            except Unavailable:
                continue
            for message in messages:
                self._note(message)
            for message in messages:
                await self._settle(message)

    def _note(self, message: ClaimedMessage) -> None:
        body = message.body
        self.handed[body] += 1
        for where, what in ((self.held, "held by two"), (self.settled, "handed out after it was settled")):
            if body in where:
                self.violations.append(f"{body!r} was {what} (receives: {message.receives})")
        self.held.add(body)

    async def _settle(self, message: ClaimedMessage) -> None:
        while True:
            try:
                await message.settle()
            except (Unavailable, OutcomeUnknown):
                continue
            self.held.discard(message.body)
            self.settled.add(message.body)
            return

    # The test's side

    async def progresses(self, messages: int = 100) -> None:
        """Wait until so many more were settled and so many more acknowledged."""
        settled, acknowledged = len(self.settled) + messages, len(self.acknowledged) + messages
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.settled) < settled or len(self.acknowledged) < acknowledged:
                self._check_callers()
                await asyncio.sleep(0.01)

    async def finish(self) -> None:
        """Publish no more, and wait until everything that was acknowledged is settled."""
        self._publishing = False
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not self._publishers_done() or not self.acknowledged.keys() <= self.settled:
                self._check_callers()
                await asyncio.sleep(0.01)
            self._consuming = False
            await asyncio.gather(*self._tasks)

    def _publishers_done(self) -> bool:
        return all(task.done() for task in self._tasks[: self._counts[0]])

    def _check_callers(self) -> None:
        """A caller that ended with an error fails the test with it."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def check(self) -> None:
        """What callers were told, against the log and against what was handed out."""
        log = await log_of(self._broker, self._name)
        stored = Counter(message.body for message in log)
        ids = {message.body: message.id.hex() for message in log}
        assert not self.violations
        assert [body for body, times in stored.items() if times > 1] == [], "one call stored its messages twice"
        assert {body: ids.get(body) for body in self.acknowledged} == self.acknowledged
        assert not self.refused & stored.keys(), "told that nothing was stored"
        assert stored.keys() <= self.acknowledged.keys() | self.unknown
        assert [body for body, times in self.handed.items() if times > 1] == []
        assert self.acknowledged.keys() <= self.handed.keys()
        assert [message.seq for message in log] == list(range(1, len(log) + 1)), "sequences are dense"
