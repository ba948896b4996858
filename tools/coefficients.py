"""Measure what a message costs: log bytes, disk bytes, flushes and processor time, by size of body and batch.

docs/design.md estimates from these figures. Run `python tools/coefficients.py --store postgresql` (or sqlite, mariadb); it
starts a server of its own in a temporary folder, takes half a minute, and prints a Markdown table.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import rowlock
from rowlock.bench.servers import cpu_seconds
from rowlock.localservers import LocalMariadb, LocalPostgres, LocalServer

SIZES = (100, 1024, 4096)
BATCHES = (1, 10, 100, 1000)
CALLERS = 64
MESSAGES = {1: 2_000, 10: 5_000, 100: 20_000, 1000: 40_000}
"""How many messages are measured, by batch."""
MILLION = 1_000_000


class Reading(NamedTuple):
    """Counters, all of which only grow."""

    seconds: float
    log_bytes: int
    flushes: int
    cycles: int
    broker_cpu: float
    database_cpu: float


class Database:
    """A database of this run's own, and how its counters are read."""

    def __init__(self, url: str, server: LocalServer | None = None):
        self.url = url
        self._server = server

    def log(self) -> tuple[int, int]:
        """Bytes written ahead, and flushes. SQLite: what this process wrote, checkpoints included; flushes are not told."""
        if isinstance(self._server, LocalPostgres):
            flushes = "(select sum(fsyncs) from pg_stat_io where object = 'wal')"
            text = self._server.sql(f"select pg_current_wal_insert_lsn() - '0/0', {flushes}")
            written, flushed = text.split()
            return int(written), int(flushed)
        if isinstance(self._server, LocalMariadb):
            names = "'Innodb_os_log_written', 'Innodb_lsn_current', 'Innodb_os_log_fsyncs'"
            text = self._server.sql(f"show global status where variable_name in ({names})", "")
            found = {name.lower(): int(value) for name, value in (line.split("\t") for line in text.splitlines())}
            return found["innodb_lsn_current"], found.get("innodb_os_log_fsyncs", 0)
        fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text("utf-8").splitlines())
        return int(fields["wchar"]), 0

    def cpu(self) -> float:
        return 0.0 if self._server is None else cpu_seconds(self._server.pid)

    def bytes_on_disk(self) -> int:
        """Of the table of messages, with its index (SQLite: of the file)."""
        if isinstance(self._server, LocalPostgres):
            name = self._server._database_of(self.url)
            return int(self._server.sql("select pg_total_relation_size('rowlock_lane_0.messages')", name))
        if isinstance(self._server, LocalMariadb):
            return sum(path.stat().st_size for path in self._server.data.rglob("*messages.ibd"))
        return Path(self.url.removeprefix("sqlite:///")).stat().st_size


@contextmanager
def database(store: str) -> Iterator[Callable[[], Database]]:
    """Makes fresh databases, on one server."""
    if store == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield lambda: Database(f"sqlite:///{tempfile.mktemp('.db', dir=folder)}")  # noqa: S306 (the folder is ours)
        return
    with LocalPostgres() if store == "postgresql" else LocalMariadb() as server:
        yield lambda: Database(server.create_database(), server)


def reading(database: Database, broker: rowlock.Broker) -> Reading:
    log_bytes, flushes = database.log()
    cycles = sum(cycle.counters.cycles for cycle in broker._engine.cycles.values())
    return Reading(time.monotonic(), log_bytes, flushes, cycles, time.process_time(), database.cpu())


async def measured(
    database: Database, broker: rowlock.Broker, messages: int, work: Callable[[], Awaitable[None]]
) -> list[str]:
    """What the work cost: per message, and per million."""
    if database._server is not None and isinstance(database._server, LocalPostgres):
        database._server.sql("checkpoint")
        await asyncio.sleep(1.1)  # PostgreSQL adds its counters up once a second
    before = reading(database, broker)
    await work()
    spent = time.monotonic() - before.seconds
    if database._server is not None:
        await asyncio.sleep(1.1)
    after = reading(database, broker)
    cycles = after.cycles - before.cycles
    return [
        f"{(after.log_bytes - before.log_bytes) / messages:,.0f}",
        f"{messages / cycles:.1f}",
        f"{(after.flushes - before.flushes) / cycles:.2f}",
        f"{(after.broker_cpu - before.broker_cpu) * MILLION / messages:,.0f}",
        f"{(after.database_cpu - before.database_cpu) * MILLION / messages:,.0f}",
        f"{messages / spent:,.0f}",
    ]


async def measure(database: Database, size: int, batch: int, callers: int) -> list[list[str]]:
    """Rows for publish, and for claim and settle."""
    messages = MESSAGES[batch] * (4 if callers > 1 else 1)
    turns = messages // batch // callers
    bodies = [os.urandom(size) for _ in range(batch)]
    async with rowlock.open(database.url) as broker:
        await broker.create_queue("q", max_message_bytes=max(size, 4096))
        await broker.publish("q", bodies)

        async def publish() -> None:
            for _ in range(turns):
                await broker.publish("q", bodies)

        async def consume() -> None:
            for _ in range(turns):
                await broker.settle(await broker.claim("q", batch))

        async def together(work: Callable[[], Awaitable[None]]) -> None:
            await asyncio.gather(*(work() for _ in range(callers)))

        count = turns * batch * callers
        label = [f"{size:,}", f"{batch:,}" if callers == 1 else f"{callers} callers x 1"]
        published = await measured(database, broker, count, lambda: together(publish))
        on_disk = f"{database.bytes_on_disk() / (count + batch):,.0f}"
        consumed = await measured(database, broker, count, lambda: together(consume))
        return [[*label, "publish", *published, on_disk], [*label, "claim + settle", *consumed, ""]]


HEADINGS = (
    "body B", "batch", "verb", "log B/message", "messages/commit", "flushes/commit",
    "broker CPU us/message", "database CPU us/message", "messages/s", "table B/message",
)  # fmt: skip


async def run(store: str, sizes: list[int]) -> None:
    out = sys.stdout
    out.write(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}\n")
    with database(store) as fresh:
        for size in sizes:
            for batch, callers in [*((batch, 1) for batch in BATCHES), (1, CALLERS)]:
                for row in await measure(fresh(), size, batch, callers):
                    out.write(f"| {' | '.join(row)} |\n")
                    out.flush()


def commit() -> str:
    return subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("postgresql", "mariadb", "sqlite"), default="postgresql")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    arguments = parser.parse_args()
    sys.stdout.write(f"commit {commit()}, {os.cpu_count()} cores, {arguments.store}\n\n")
    try:
        import uvloop
    except ImportError:
        asyncio.run(run(arguments.store, arguments.sizes))
    else:
        uvloop.run(run(arguments.store, arguments.sizes))


if __name__ == "__main__":
    main()
