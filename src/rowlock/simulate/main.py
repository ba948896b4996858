"""A run from beginning to end: start, break, drain, judge."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from rich.console import Console

from rowlock import embedded, errors
from rowlock.simulate import history, host, report, streams, verdict
from rowlock.simulate.board import Board
from rowlock.simulate.database import Database, database
from rowlock.simulate.faults import Faults
from rowlock.simulate.fleet import BrokerProcess
from rowlock.simulate.options import DATABASE, FAULTS, SimulateOptions, check, named

CLIENTS_PER_PROCESS = 4
PROCESSES_MOST = 8
BACKLOG_MESSAGES = 1_500
BACKLOG_SECONDS = 0.5
REFRESH_SECONDS = 0.2


def run(options: SimulateOptions) -> int:
    """Show a run and its verdict. The exit code: 0 when all is as it should be."""
    console, complaints = Console(quiet=options.json), Console(stderr=True)
    found = simulate(options, console)
    if options.json:
        print(report.as_json(found))  # noqa: T201
    report.show(found, console)
    report.complain(found, complaints)
    return 0 if found.ok else 1


def simulate(options: SimulateOptions, console: Console) -> report.Outcome:
    """Fine is a run when every invariant holds, each was checked, and every fault that was asked for happened."""
    check(options)
    directory = Path(tempfile.mkdtemp(prefix="rowlock-simulate-"))
    found = None
    try:
        with database(options.store, directory) as kept:
            found = asyncio.run(_Run(options, kept, directory, console).run())
    finally:
        if found is None or found.ok:
            shutil.rmtree(directory, ignore_errors=True)
    return found


class _Run:
    """One run on one database."""

    def __init__(self, options: SimulateOptions, kept: Database, directory: Path, console: Console):
        self._options = options
        self._database = kept
        self._directory = directory
        self._faults = named(options.faults)
        if options.faults == "all" and not kept.can_be_killed:
            self._faults -= {DATABASE}
        self._seed = int.from_bytes(os.urandom(4)) if options.seed is None else options.seed
        self._streams = streams.streams(kept.prefix, self._faults)
        self._troubles: list[str] = []
        title = f"rowlock simulate on {kept.name}"
        self._board = Board(console, options.seconds, title, silent=options.json)

    async def run(self) -> report.Outcome:
        kills: Counter[str] = Counter()
        if DATABASE in self._faults and not self._database.can_be_killed:
            self._troubles.append("The simulation can kill a database only where it started it itself.")
        else:
            with self._board:
                kills = await self._simulate()
        self._board.tell("judging")
        told = history.read(self._streams, self._directory)
        found = report.outcome(told, verdict.judge(told), kills, self._troubles, self._seed, self._directory)
        found.troubles += report.missing(found, self._faults)
        return found

    async def _simulate(self) -> Counter[str]:
        self._board.stage("opening the database")
        broker = await host.opened(self._database.url)
        try:
            await streams.create(broker, self._streams)
            brokers = self._fleet()
            self._board.watch(brokers)
            refreshing = asyncio.ensure_future(self._refresh())
            try:
                return await self._work(broker, brokers)
            finally:
                refreshing.cancel()
                await asyncio.gather(*(one.close() for one in brokers))
                if not self._database.is_ours:
                    await streams.delete(broker, self._streams)
        finally:
            await broker.close()

    async def _work(self, broker: embedded.Broker, brokers: Sequence[BrokerProcess]) -> Counter[str]:
        await asyncio.gather(*(one.start() for one in brokers))
        self._board.stage("publishing, claiming, settling")
        throttle = asyncio.ensure_future(self._throttle(broker, brokers))
        faults = Faults(self._faults, self._database, brokers, Random(self._seed), self._board.tell)
        await faults.run(self._options.seconds)
        throttle.cancel()
        await asyncio.gather(throttle, return_exceptions=True)
        self._board.stage("draining")
        for one in brokers:
            one.tell(host.END)
        await self._drain(broker)
        self._board.stage("ending")
        await asyncio.gather(*(one.finish() for one in brokers))
        return faults.counts

    def _fleet(self) -> list[BrokerProcess]:
        """Broker processes with a few producers and consumers each."""
        options = self._options
        clients = options.producers + options.consumers
        count = max(2, min(PROCESSES_MOST, clients // CLIENTS_PER_PROCESS))
        return [
            BrokerProcess(
                host.Spec(
                    number=number,
                    life=0,
                    url=self._database.url,
                    prefix=self._database.prefix,
                    directory=str(self._directory),
                    producers=list(range(number, options.producers + 1, count)),
                    consumers=list(range(number, options.consumers + 1, count)),
                    faults=[name for name in FAULTS if name in self._faults],
                    seed=self._seed,
                    prelude=options.child_prelude,
                    ending=False,
                ),
                self._trouble,
            )
            for number in range(1, count + 1)
        ]

    def _trouble(self, text: str) -> None:
        self._troubles.append(text)
        self._board.tell(text)

    async def _refresh(self) -> None:
        while True:
            self._board.refresh()
            await asyncio.sleep(REFRESH_SECONDS)

    async def _throttle(self, broker: embedded.Broker, brokers: Sequence[BrokerProcess]) -> None:
        """Producers wait while consumers are far behind, so that the end does not take longer than the run."""
        while True:
            order = host.PAUSE if await self._left(broker) > BACKLOG_MESSAGES else host.FLOW
            for one in brokers:
                one.tell(order)
            await asyncio.sleep(BACKLOG_SECONDS)

    async def _left(self, broker: embedded.Broker) -> int:
        """How many messages are not done."""
        try:
            return sum([(await broker.depth(name)).total for name in self._streams.subscriptions])
        except errors.Unavailable:
            return BACKLOG_MESSAGES + 1

    async def _drain(self, broker: embedded.Broker) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.drain_seconds
        while left := await self._left(broker):
            if loop.time() > deadline:
                patience = self._options.drain_seconds
                self._troubles.append(f"{left} messages were not consumed within {patience:.0f} s after the end.")
                return
            await asyncio.sleep(REFRESH_SECONDS)
