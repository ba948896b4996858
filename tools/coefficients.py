"""Measure what a message costs: bytes of log and disk, commits, and processor time, by size of body and batch.

The estimates in docs/design.md stand on these figures. `python tools/coefficients.py --store postgresql` (or sqlite, or
mariadb) starts a server of its own in a temporary folder, takes a minute, and prints a Markdown table.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import rowlock
from rowlock.bench.processor import family_seconds
from rowlock.bench.report import commit
from rowlock.localservers import LocalMariadb, LocalPostgres, LocalServer

SIZES = (100, 1024, 4096)
SETTINGS = ((1, 1, 400), (10, 1, 2_000), (100, 1, 10_000), (1000, 1, 20_000), (1, 64, 6_400))
"""Batch, concurrent callers, and messages in a round."""
ROUNDS = 3
HEADINGS = (
    "body B", "batch", "verb", "messages/commit", "log B/message", "table B/message", "broker CPU us/message",
    "database CPU us/message", "messages/s",
)  # fmt: skip


class Database:
    """A database of this run's own, and how its counters are read."""

    def __init__(self, url: str, server: LocalServer | None = None):
        self.url = url
        self._server = server

    def log_bytes(self) -> int:
        """Written ahead so far. SQLite: what this process wrote, checkpoints of its log included."""
        if isinstance(self._server, LocalPostgres):
            return int(self._server.sql("select pg_current_wal_insert_lsn() - '0/0'"))
        if isinstance(self._server, LocalMariadb):
            return int(self._server.sql("show global status like 'Innodb_lsn_current'", "").split()[1])
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text("utf-8").splitlines())
        return int(fields["wchar"])

    def cpu_seconds(self) -> float:
        return 0.0 if self._server is None else family_seconds(self._server.pid)

    def table_bytes(self) -> int:
        """Of the messages, with their index (SQLite: of the file)."""
        if isinstance(self._server, LocalPostgres):
            database = self._server._database_of(self.url)
            return int(self._server.sql("select pg_total_relation_size('rowlock_lane_0.messages')", database))
        if isinstance(self._server, LocalMariadb):
            folder = self._server.data / self._server._database_of(self.url)
            return sum(path.stat().st_size for path in folder.glob("*messages.ibd"))
        path = Path(self.url.removeprefix("sqlite:///"))
        return sum(one.stat().st_size for one in path.parent.glob(path.name + "*"))


class Cost(NamedTuple):
    """Of one round, by message."""

    messages_per_commit: float
    log_bytes: float
    broker_cpu: float
    database_cpu: float
    rate: float


@contextmanager
def databases(store: str) -> Iterator[Callable[[], Database]]:
    """Makes fresh databases, on one server."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            numbers = iter(range(1_000))
            yield lambda: Database(f"sqlite:///{folder}/{next(numbers)}.db")
        return
    with LocalPostgres() if store == "postgresql" else LocalMariadb() as server:
        yield lambda: Database(server.create_database(), server)


async def cost(database: Database, broker: rowlock.Broker, messages: int, work: Callable[[], Awaitable[None]]) -> Cost:
    log, server, cycles = database.log_bytes(), database.cpu_seconds(), _cycles(broker)
    mine, start = time.process_time(), time.monotonic()
    await work()
    spent, mine = time.monotonic() - start, time.process_time() - mine
    server, log = database.cpu_seconds() - server, database.log_bytes() - log
    commits = max(1, _cycles(broker) - cycles)
    return Cost(messages / commits, log / messages, mine / messages * 1e6, server / messages * 1e6, messages / spent)


def _cycles(broker: rowlock.Broker) -> int:
    return sum(cycle.counters.cycles for cycle in broker._engine.cycles.values())


async def measure(database: Database, size: int, batch: int, callers: int, messages: int) -> list[list[str]]:
    """Rows for publish, for claim and settle, and for the removal of what is settled."""
    turns = messages // batch // callers
    bodies = [os.urandom(size) for _ in range(batch)]
    label = [f"{size:,}", f"{batch:,}" if callers == 1 else f"{callers} callers"]
    async with rowlock.open(database.url) as broker:
        background = broker._engine._background
        assert background is not None
        await background.close()
        await broker.create_queue("q", max_message_bytes=max(size, 4096))

        async def publish() -> None:
            for _ in range(turns):
                await broker.publish("q", bodies)

        async def consume() -> None:
            for _ in range(turns):
                await broker.settle(await broker.claim("q", batch))

        async def rounds(work: Callable[[], Awaitable[None]]) -> list[Cost]:
            async def together() -> None:
                await asyncio.gather(*(work() for _ in range(callers)))

            return [await cost(database, broker, messages, together) for _ in range(ROUNDS)]

        published = await rounds(publish)
        table = f"{database.table_bytes() / messages / ROUNDS:,.0f}"
        consumed = await rounds(consume)
        removed = [await cost(database, broker, messages * ROUNDS, background.sweep)]
        return [
            [*label, "publish", *_cells(published, table)],
            [*label, "claim and settle", *_cells(consumed)],
            [*label, "remove", *_cells(removed)],
        ]


def _cells(rounds: list[Cost], table: str = "") -> list[str]:
    """The middle round; of processor times the least, because others use this machine, too."""
    return [
        f"{median(one.messages_per_commit for one in rounds):,.1f}",
        f"{median(one.log_bytes for one in rounds):,.0f}",
        table,
        f"{min(one.broker_cpu for one in rounds):,.1f}",
        f"{min(one.database_cpu for one in rounds):,.1f}",
        f"{median(one.rate for one in rounds):,.0f}",
    ]


async def run(store: str, sizes: list[int]) -> None:
    write = sys.stdout.write
    write(f"Commit {commit()[:12]}, {store}, {os.cpu_count()} cores.\n\n")
    write(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}\n")
    with databases(store) as fresh:
        for size in sizes:
            for batch, callers, messages in SETTINGS:
                for row in await measure(fresh(), size, batch, callers, messages):
                    write(f"| {' | '.join(row)} |\n")
                    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("postgresql", "mariadb", "sqlite"), default="postgresql")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="bytes of the bodies")
    arguments = parser.parse_args()
    asyncio.run(run(arguments.store, arguments.sizes))


if __name__ == "__main__":
    main()
