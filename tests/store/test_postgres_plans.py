"""PostgreSQL: every statement on a lane's tables finds its rows by key, however big the tables have become.

The lane's connection makes its plans when the statistics say that every table has a row or two, the worst moment; then
they grow to a million messages.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from rowlock.store.port import Deduplicated, Delay, Durability, PageDrop, Progress, Scope, Wanted
from rowlock.store.postgres import PostgresStore

from .session import PART, SUB, Session, columns, page, partition, scheduled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Operation = Callable[["Watched"], Awaitable[object]]

MESSAGES = 1_000_000
PAGES = 8_000
OTHERS = 10_000
"""Partitions, each with a cursor and a page, besides the big one."""

LOAD = f"""
delete from rowlock_lane_0.messages;
delete from rowlock_lane_0.pages;
insert into rowlock_lane_0.messages (part, seq, accepted_at, published_at, size, id, body)
    select {PART}, n, 1000 + n, 1000 + n, 4, int8send(n), 'body' from generate_series(1, {MESSAGES}) n;
insert into rowlock_lane_0.partitions select 1000 + n, 1, 1, 1 from generate_series(1, {OTHERS}) n;
insert into rowlock_lane_0.cursors select 1000 + n, {SUB}, 1 from generate_series(1, {OTHERS}) n;
insert into rowlock_lane_0.pages
    select {PART}, {SUB}, n, 0, 5000 + n, 1, 1, 1, 'page'::bytea from generate_series(1, {PAGES}) n
    union all select 1000 + n, {SUB}, 0, 0, 5000, 1, 1, 1, 'page'::bytea from generate_series(1, {OTHERS}) n;
insert into rowlock_lane_0.dedup select {PART}, n / 1000, 1, 1, 'm', '', n::text from generate_series(1, {OTHERS}) n;
insert into rowlock_lane_0.scheduled
    select {PART}, 9000 + n, 1, null, 4, int8send(n), null, null, 'late' from generate_series(1, {OTHERS}) n;
insert into rowlock_lane_0.writers select 50000 + n, 1, 1 from generate_series(1, {OTHERS}) n;
"""


class Watched(Session):
    """A session that keeps the plan of every statement that its connection executes, also inside functions."""

    plans: list[dict[str, Any]]

    async def watch(self) -> None:
        self.plans = []
        connection = self.lane._connection  # type: ignore[attr-defined]
        connection.add_log_listener(self._keep)
        await connection.execute(
            "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;"
            "set auto_explain.log_analyze = on; set auto_explain.log_timing = off; set auto_explain.log_verbose = on;"
            "set auto_explain.log_format = json; set client_min_messages = log"
        )

    def _keep(self, _: object, notice: asyncpg.PostgresLogMessage) -> None:
        _, found, plan = notice.message.partition("plan:\n")
        if found:
            self.plans.append(json.loads(plan))

    def scans(self) -> list[dict[str, Any]]:
        found = [scan for plan in self.plans for scan in scans_of(plan["Plan"])]
        self.plans.clear()
        return found


def scans_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    own = [node] if "Relation Name" in node and node["Node Type"] != "ModifyTable" else []
    return own + [scan for below in node.get("Plans", ()) for scan in scans_of(below)]


def rows_of(scan: dict[str, Any]) -> int:
    removed = sum(rows for name, rows in scan.items() if name.startswith("Rows Removed"))
    return int((scan["Actual Rows"] + removed) * scan["Actual Loops"])


# What a lane is asked for. Each takes the session and leaves the tables as they were, but for a few rows.


async def attempt(watched: Watched, **changes: Any) -> None:
    changed = watched.changes(await watched.lane.clock(), **changes)
    assert (await watched.lane.attempt(changed)).agreed
    watched.last = changed.turn


async def publish_and_claim_one(watched: Watched) -> None:
    last, head = await ends(watched)
    await attempt(
        watched,
        expected_parts=[(PART, 1, last)],
        expected_cursors=[(PART, SUB, 1, head.stamp)],
        messages=columns(last + 1),
        pages=[page(head.page, head.stamp)],
    )


async def publish_and_claim_many(watched: Watched) -> None:
    last, head = await ends(watched)
    await attempt(
        watched,
        expected_parts=[(PART, 1, last)],
        expected_cursors=[(PART, SUB, 1, head.stamp)],
        messages=columns(*range(last + 1, last + 11)),
        pages=[page(head.page, head.stamp), page(head.page + 1), page(head.page + 2)],
        deduplicated=[Deduplicated(PART, 99, "", str(last), b"m", 1, 1)],
        unseen=[(PART, 99, "", "other")],
        scheduled=[scheduled(last, 5)],
        delays=[Delay(PART, 1)],
        progress=[Progress(7, PART, 1)],
    )
    _, newest = await ends(watched)
    await attempt(
        watched,
        expected_cursors=[(PART, SUB, 1, newest.stamp)],
        dropped_pages=[PageDrop(PART, SUB, newest.page, 0, newest.stamp)],
        unscheduled=[(PART, 5, scheduled(last, 5).id)],
        delays=[Delay(PART, -1)],
    )


async def ends(watched: Watched) -> tuple[int, Any]:
    stamp = (await watched.lane.positions([(PART, SUB)]))[0].stamp
    view = await watched.look(Scope(parts=[PART], cursors=[(PART, SUB)], known={(PART, SUB): (stamp, frozenset())}))
    return view.partitions[PART].last, view.cursors[PART, SUB].head


async def fence(watched: Watched) -> None:
    assert watched.last is not None
    assert await watched.lane.fence(watched.last)


async def lock_whole(watched: Watched) -> None:
    await watched.look(Scope(parts=[1001], whole=[1001]))


def reading(name: str, *arguments: Any) -> Operation:
    async def read(watched: Watched) -> object:
        return await getattr(watched.lane, name)(*arguments)

    read.__name__ = name
    return read


BOUNDED: list[tuple[Operation, int]] = [
    (publish_and_claim_one, 3),
    (publish_and_claim_many, 4),
    (fence, 1),
    (lock_whole, 2),
    (reading("messages", [Wanted(PART, 500_000, 500_010, 1 << 20)], [(PART, 7)]), 10),
    (reading("first_live", PART, 100, 50, 1), 1),
    (reading("duplicates", [(PART, 3, "", "3500")]), 1),
    (reading("due", PART, 10**6, 5), 5),
    (reading("positions", [(PART, SUB), (1005, SUB)]), 2),
    (reading("all_cursors", (500, 0), 10), 10),
    (reading("partition_rows", [PART, 1007]), 2),
    (reading("pages", (1009, SUB)), 1),
    (reading("sequence_at", PART, 700_000), 1),
    (reading("progress", 7), 2),
    (reading("delete_messages", PART, 1, 11), 10),
    (reading("delete_deduplicated", PART, 5, 10), 10),
    (reading("delete_remains", 1011, None, 10), 1),
    (reading("delete_remains", 1012, SUB, 10), 1),
]


async def execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.fixture
async def watched(postgres_url: str) -> AsyncIterator[Watched]:
    store = PostgresStore(postgres_url)
    await store.open()
    session = Watched(await store.lane(0, Durability.LOCAL))
    await session.commit(partitions=[partition(PART)], cursors=[(PART, SUB, 1)], pages=[page(0)], messages=columns(1))
    await execute(postgres_url, "vacuum analyze")
    for operation, _ in BOUNDED:
        await operation(session)
    await execute(postgres_url, LOAD)
    await session.watch()
    yield session
    await session.lane.close()
    await store.close()


@pytest.mark.slow
async def test_every_statement_finds_its_rows_by_key(watched: Watched) -> None:
    for operation, bound in BOUNDED:
        await operation(watched)
        scans = watched.scans()
        assert scans, operation.__name__
        for scan in scans:
            found = f"{operation.__name__}: {json.dumps(scan, indent=1)}"
            assert "Index Cond" in scan or "TID Cond" in scan, found
            assert rows_of(scan) <= bound, found
