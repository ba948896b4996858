"""MariaDB: every hot statement reaches its rows by the primary key, and few of them, at a million messages."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rowlock.store.mariadb import MariadbStore
from rowlock.store.mariadb.address import parse
from rowlock.store.mariadb.connection import connect
from rowlock.store.mariadb.literals import NUMBERS, PAIRS
from rowlock.store.mariadb.schema import PACKAGE, prefix
from rowlock.store.port import Deduplicated, Delay, Durability, PageDrop, Progress, Scope, Wanted
from rowlock.store.statements import load

from .session import Session, columns, page, scheduled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from rowlock.localservers import LocalServer
    from rowlock.store.mariadb.connection import Connection
    from rowlock.store.mariadb.lane import MariadbLane

MESSAGES = 1_000_000
PARTS = 4
LAST = MESSAGES // PARTS
PAGES = 500
CURSORS = 1_000
"""More rows than a statement may read, so that reading a whole table is noticed."""
NO_PLAN = ("INSERT", "REPLACE", "SET", "START", "COMMIT", "EXPLAIN", "SHOW")
SMALL_TABLES = ("delays", "writers")
"""They hold what waits and who writes at present: reading all of them is allowed, and rare."""

FEW = """
INSERT INTO rowlock_lane0_partitions SELECT seq, 1, 1, 1 FROM seq_1_to_3;
INSERT INTO rowlock_lane0_cursors SELECT seq, 7, 1 FROM seq_1_to_3;
INSERT INTO rowlock_lane0_messages (part, seq, id, accepted_at, published_at, size, body)
    SELECT 1, seq, UNHEX(LPAD(HEX(seq), 32, '0')), 1, 1, 10, '0123456789' FROM seq_1_to_3;
INSERT INTO rowlock_lane0_pages SELECT 1, 7, seq, 0, seq, 1, 0, 1, 'x' FROM seq_1_to_3;
INSERT INTO rowlock_lane0_scheduled (part, due, id, accepted_at, size, body)
    SELECT 2, seq, UNHEX(LPAD(HEX(seq), 32, '0')), 1, 4, 'late' FROM seq_1_to_3;
INSERT INTO rowlock_lane0_delays VALUES (2, 3, 1)"""
MANY = f"""
INSERT INTO rowlock_lane0_partitions SELECT seq, 1, 1, 1 FROM seq_1_to_{CURSORS};
INSERT INTO rowlock_lane0_cursors SELECT seq, 7, 1 FROM seq_1_to_{CURSORS};
INSERT INTO rowlock_lane0_messages (part, seq, id, accepted_at, published_at, expires_at, size, body)
    SELECT p.seq, s.seq, UNHEX(LPAD(HEX(s.seq), 32, '0')), s.seq, s.seq, s.seq, 10, '0123456789'
    FROM seq_1_to_{PARTS} p JOIN seq_1_to_{LAST} s;
INSERT INTO rowlock_lane0_pages SELECT p.seq, 7, s.seq, 0, s.seq, 1, 0, 1, REPEAT('x', 100)
    FROM seq_1_to_{PARTS} p JOIN seq_1_to_{PAGES} s;
INSERT INTO rowlock_lane0_dedup SELECT p.seq, s.seq, '', s.seq, REPEAT('x', 16), s.seq, 1
    FROM seq_1_to_{PARTS} p JOIN seq_1_to_5000 s;
INSERT INTO rowlock_lane0_scheduled (part, due, id, accepted_at, size, body)
    SELECT p.seq, s.seq, UNHEX(LPAD(HEX(s.seq), 32, '0')), 1, 4, 'late' FROM seq_1_to_{PARTS} p JOIN seq_1_to_5000 s;
INSERT INTO rowlock_lane0_delays SELECT seq, 5000, 1 FROM seq_1_to_{PARTS};
INSERT INTO rowlock_lane0_progress SELECT 1 + seq DIV 3, seq, 1 FROM seq_1_to_5000"""


def _database(server: LocalServer, statements: str) -> Iterator[str]:
    """A database with these rows in its tables."""
    url = server.create_database()

    async def fill() -> None:
        store = MariadbStore(url)
        await store.open()
        connection = await connect(parse(url), Durability.RELAXED)
        await connection.run(*statements.split(";"))
        connection.drop()
        await store.close()

    asyncio.run(fill())
    yield url
    server.drop_database(url)


@pytest.fixture(scope="module")
def full_url(mariadb_server: LocalServer) -> Iterator[str]:
    yield from _database(mariadb_server, MANY)


@pytest.fixture
def small_url(mariadb_server: LocalServer) -> Iterator[str]:
    yield from _database(mariadb_server, FEW)


class Watched:
    """A lane whose statements are written down."""

    def __init__(self, lane: MariadbLane) -> None:
        self.lane = lane
        self.session = Session(lane)
        self.connection: Connection = lane._connection
        self.statements: list[str] = []
        packet = self.connection._packet

        async def recorded(statements: Any) -> Any:
            self.statements += statements
            return await packet(statements)

        self.connection._packet = recorded  # type: ignore[method-assign]

    async def rows_read(self) -> int:
        found = await self.connection.rows("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in found)

    async def plans(self, statements: list[str]) -> list[tuple[str, Any]]:
        explained = [one for one in statements if not one.startswith(NO_PLAN)]
        return [(one, row) for one in explained for row in await self.connection.rows(f"EXPLAIN {one}")]


@asynccontextmanager
async def watching(url: str) -> AsyncIterator[Watched]:
    store = MariadbStore(url)
    await store.open()
    lane: Any = await store.lane(0, Durability.RELAXED)
    try:
        yield Watched(lane)
    finally:
        await lane.close()
        await store.close()


@pytest.fixture
async def watched(full_url: str) -> AsyncIterator[Watched]:
    async with watching(full_url) as watched:
        yield watched


@pytest.fixture
async def small(small_url: str) -> AsyncIterator[Watched]:
    async with watching(small_url) as watched:
        yield watched


async def cycle(session: Session) -> None:
    """A cycle with something of everything that a cycle writes."""
    view = await session.lane.lock(Scope(parts=[1, 2], cursors=[(1, 7), (2, 7)], whole=[2]))
    last = view.partitions[1].last
    newest = view.cursors[1, 7].head
    assert newest is not None
    await session.finish(
        view,
        messages=columns(last + 1, part=1),
        pages=[page(newest.page, was=newest.stamp, part=1, sub=7)],
        dropped_pages=[PageDrop(1, 7, row.page, row.era, row.stamp) for row in view.pages[1, 7][:2] if row != newest],
        deduplicated=[Deduplicated(1, 9_000, "", f"{last}", bytes(16), last + 1, 1)],
        scheduled=[scheduled(1, due=10_000 + last, part=1)],
        unscheduled=[(2, due, due.to_bytes(16, "big")) for due in (1, 2)],
        delays=[Delay(1, 1), Delay(2, -1)],
        progress=[Progress(1, 1, 1)],
        partitions=[view.partitions[1]],
        cursors=[(1, 7, 1)],
        removed_partitions=[3, CURSORS + 1],
        removed_cursors=[(3, 7), (CURSORS + 1, 7)],
    )


OPERATIONS: dict[str, tuple[Callable[[Session], Awaitable[Any]], int]] = {
    "cycle": (cycle, 2 * PAGES + 200),
    "messages_within": (lambda s: s.lane.messages([Wanted(1, 1_000, 1_100, 1_000)], []), 250),
    "messages": (lambda s: s.lane.messages([Wanted(1, 1_000, 1_100, 500)], [(2, 5), (3, 9)]), 1_200),
    "first_live": (lambda s: s.lane.first_live(1, 100, 50, LAST), 120),
    "duplicates": (lambda s: s.lane.duplicates([(1, 5, "", "5"), (2, 6, "", "6")]), 6),
    "due": (lambda s: s.lane.due(1, 5_000, 10), 15),
    "parts_due": (lambda s: s.lane.parts_due(5_000), 10),
    "positions": (lambda s: s.lane.positions([(1, 7), (2, 7), (3, 7)]), 25),
    "all_cursors": (lambda s: s.lane.all_cursors((5, 7), 10), 15),
    "partition_rows": (lambda s: s.lane.partition_rows([1, 2]), 12),
    "pages": (lambda s: s.lane.pages((3, 7)), PAGES + 5),
    "sequence_at": (lambda s: s.lane.sequence_at(1, LAST // 3), 40),
    "progress": (lambda s: s.lane.progress(100), 6),
    "delete_messages": (lambda s: s.lane.delete_messages(4, 1, 50), 60),
    "delete_deduplicated": (lambda s: s.lane.delete_deduplicated(1, 5_000, 10), 15),
    "delete_remains": (lambda s: s.lane.delete_remains(4, None, 10), 15),
    "delete_remains_of_a_ledger": (lambda s: s.lane.delete_remains(4, 7, 10), 15),
    "delete_writers": (lambda s: s.lane.delete_writers(10**15), 40),
}


@pytest.mark.parametrize("name", OPERATIONS)
async def test_reads_few_rows_by_the_key(watched: Watched, name: str) -> None:
    operation, bound = OPERATIONS[name]
    before = await watched.rows_read()
    watched.statements.clear()
    await operation(watched.session)
    statements = list(watched.statements)
    assert await watched.rows_read() - before <= bound
    for statement, plan in await watched.plans(statements):
        assert_keyed(statement, plan)


async def test_small_tables_are_read_by_the_key_too(small: Watched) -> None:
    """And not whole: that would wait for the rows that others have locked."""
    await cycle(small.session)
    for statement, plan in await small.plans(small.statements):
        assert_keyed(statement, plan)


def assert_keyed(statement: str, plan: Any) -> None:
    _, _, table, kind, _, key, _, _, _, extra = plan
    if table in (None, "j") or table.startswith("<") or _is_small(statement):
        return
    assert (kind in ("const", "eq_ref", "ref", "range"), key) == (True, "PRIMARY"), (statement, plan)
    assert "filesort" not in (extra or ""), (statement, plan)


def _is_small(statement: str) -> bool:
    return any(re.search(rf"(FROM|UPDATE) rowlock_lane0_{table}\b", statement) for table in SMALL_TABLES)


async def test_no_hot_statement_is_left_out(watched: Watched) -> None:
    await cycle(watched.session)  # the first turn; the second follows it
    for operation, _ in OPERATIONS.values():
        await operation(watched.session)
    await watched.lane.fence(watched.session.turn())
    seen = "\n".join(watched.statements)
    sql = _lane_statements()
    parts = {name: re.split(r"%\(\w+\)s", text) for name, text in sql.items()}
    unseen = [name for name, texts in parts.items() if not all(text in seen for text in texts)]
    assert unseen == ["insert_messages_bulk"]


def _lane_statements() -> dict[str, str]:
    names = {"lane": prefix(0), "numbers": NUMBERS, "pairs": PAIRS}
    return load(PACKAGE, "reads.sql", **names) | load(PACKAGE, "writes.sql", **names)
