"""Faults from outside: broker processes killed and stopped, the database killed, all at random moments."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from rowlock.simulate.database import Database
from rowlock.simulate.fleet import BrokerProcess
from rowlock.simulate.host import DIE_COMMITTING
from rowlock.simulate.options import BROKERS, DATABASE

KILLED = "brokers"
STOPPED = "stops"
CRASHED = "database"

STOP_SECONDS = (0.5, 7.0)
"""Longer, at times, than a hold lasts, and than a stalled broker may keep a lock."""
DOWN_SECONDS = (0.1, 1.5)
PAUSE_SECONDS = 2.0
DEATH_SECONDS = 20.0
"""It may have been stopped, or have nothing to commit."""


class Faults:
    """Breaks something every now and then, every kind at least once."""

    def __init__(
        self,
        names: frozenset[str],
        database: Database,
        brokers: Sequence[BrokerProcess],
        random: Random,
        tell: Callable[[str], None],
    ):
        self.counts: Counter[str] = Counter()
        self._database = database
        self._brokers = brokers
        self._random = random
        self._tell = tell
        self._actions: list[Callable[[], Awaitable[None]]] = []
        if BROKERS in names:
            self._actions += [self._kill_broker, self._stop_broker]
        if DATABASE in names and database.can_be_killed:
            self._actions.append(self._die_committing if database.is_file else self._kill_database)
        self._deadline = 0.0
        self._down = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        """Until that time has passed; then everything runs again."""
        loop = asyncio.get_running_loop()
        deadline = self._deadline = loop.time() + seconds
        pause = min(PAUSE_SECONDS, seconds / (2 * len(self._actions) + 1))
        turns: list[Callable[[], Awaitable[None]]] = []
        while (left := deadline - loop.time()) > 0:
            await asyncio.sleep(min(left, pause * self._random.uniform(0.5, 1.5)))
            if self._actions and loop.time() < deadline:
                turns = turns or self._random.sample(self._actions, len(self._actions))
                task = loop.create_task(_as_coroutine(turns.pop()))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
        await self.settled()

    async def settled(self) -> None:
        """Whatever is stopped or down is so for a short time only."""
        await asyncio.gather(*self._under_way)
        for broker in self._brokers:
            broker.resume()

    async def _kill_broker(self) -> None:
        broker = self._random.choice(self._brokers)
        if broker.kill():
            self._tell(f"kill -9 of broker process {broker.spec.number}")
            self.counts[KILLED] += 1

    async def _stop_broker(self) -> None:
        left = self._deadline - asyncio.get_running_loop().time()
        seconds = min(self._random.uniform(*STOP_SECONDS), max(left, STOP_SECONDS[0]))
        running = [broker for broker in self._brokers if broker.alive and not broker.stopped]
        broker = self._random.choice(running or self._brokers)
        if broker.stop():
            self._tell(f"broker process {broker.spec.number} is stopped for {seconds:.1f} s")
            self.counts[STOPPED] += 1
            await asyncio.sleep(seconds)
            broker.resume()

    async def _kill_database(self) -> None:
        if self._down.locked():
            return
        async with self._down:
            self._tell("kill -9 of the database")
            await self._database.kill()
            self.counts[CRASHED] += 1
            await asyncio.sleep(self._random.uniform(*DOWN_SECONDS))
            await self._database.start()
            self._tell("the database is up again")

    async def _die_committing(self) -> None:
        running = [broker for broker in self._brokers if broker.alive and not broker.stopped]
        broker = self._random.choice(running or self._brokers)
        life, kills = broker.spec.life, broker.kills
        self._tell(f"broker process {broker.spec.number} dies in the middle of a transaction")
        broker.tell(DIE_COMMITTING)
        loop = asyncio.get_running_loop()
        patience = loop.time() + DEATH_SECONDS
        while broker.spec.life == life and loop.time() < patience:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self.counts[CRASHED] += broker.spec.life > life and broker.kills == kills


async def _as_coroutine(action: Callable[[], Awaitable[None]]) -> None:
    await action()
