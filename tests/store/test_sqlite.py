"""SQLite: the conformance suite, and what only SQLite has."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from rowlock import errors, limits
from rowlock.store.faults import Contended, Full, Lost, Misuse, Rejected
from rowlock.store.port import Durability, Scope
from rowlock.store.sqlite import SqliteStore
from rowlock.store.sqlite.errors import FAULTS, fault
from rowlock.store.statements import load

from .catalog import entry
from .conformance import StoreConformance
from .session import PART, SUB, Fixtures, columns, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rowlock.store.port import Store

    from .session import NewStore, Reopen, Session


class OnSqlite:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "rowlock.db"

    @pytest.fixture
    def new_store(self, file: Path) -> NewStore:
        return lambda: SqliteStore(f"sqlite:///{file}")

    @pytest.fixture
    def outside(self, file: Path, store: Store) -> Iterator[sqlite3.Connection]:
        """Another program that uses the file."""
        connection = sqlite3.connect(file, isolation_level=None)
        yield connection
        connection.close()


class TestSqlite(OnSqlite, StoreConformance):
    pass


class TestOnlySqlite(OnSqlite, Fixtures):
    @pytest.mark.parametrize(
        "url",
        [
            "sqlite://",
            "sqlite:///",
            "sqlite:///:memory:",
            "sqlite::memory:",
            "sqlite:///x.db?mode=ro",
            "mysql:///x.db",
            "x",
        ],
    )
    def test_an_address_that_names_no_file_is_refused(self, url: str) -> None:
        with pytest.raises(errors.InvalidArgument, match=r"sqlite:///|options"):
            SqliteStore(url)

    async def test_a_relative_address(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        store = SqliteStore("sqlite:///here.db")
        await store.open()
        await store.close()
        assert (tmp_path / "here.db").exists()

    async def test_a_folder_that_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(errors.InvalidArgument, match="nowhere of the database does not exist"):
            await SqliteStore(f"sqlite:///{tmp_path}/nowhere/x.db").open()

    @pytest.mark.parametrize("lanes", [0, limits.LANES_COUNT + 1])
    async def test_a_number_of_lanes_out_of_range(self, new_store: NewStore, lanes: int) -> None:
        with pytest.raises(errors.InvalidArgument, match=f"not {lanes}"):
            await new_store().open(lanes)

    async def test_a_newer_schema_is_refused(self, outside: sqlite3.Connection, reopen: Reopen) -> None:
        outside.execute("update rowlock_meta set value = 99 where name = 'schema_version'")
        with pytest.raises(errors.SchemaTooNew, match="99"):
            await reopen()

    async def test_an_older_library_is_refused(self, new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
        with pytest.raises(errors.ServerTooOld, match=r"3\.35\.0"):
            await new_store().open()

    async def test_local_flushes_every_commit(self, store: Store) -> None:
        for durability, synchronous in ((Durability.LOCAL, 2), (Durability.RELAXED, 1)):
            lane = await store.lane(0, durability)
            assert lane._connection.rows("pragma synchronous") == [(synchronous,)]  # type: ignore[attr-defined]
            assert lane._connection.rows("pragma journal_mode") == [("wal",)]  # type: ignore[attr-defined]
            await lane.close()

    async def test_another_program_that_keeps_the_lock(
        self, session: Session, outside: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "LOCK_HOLD_SECONDS", 0.05)
        outside.execute("begin immediate")
        with pytest.raises(Contended):
            await session.lane.lock(Scope(parts=[PART]))
        outside.execute("rollback")
        await session.commit(messages=columns(1))

    async def test_a_connection_of_this_process_that_keeps_the_lock(
        self, session: Session, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "LOCK_HOLD_SECONDS", 0.05)
        other = await (await reopen()).lane(0, Durability.LOCAL)
        await other.lock(Scope())
        with pytest.raises(Contended):
            await session.lane.lock(Scope())
        await other.close()
        await session.commit()

    async def test_a_full_disk_undoes_everything(self, session: Session) -> None:
        ((pages,),) = session.lane._connection.rows("pragma page_count")  # type: ignore[attr-defined]
        session.lane._connection.rows(f"pragma max_page_count = {pages + 2}")  # type: ignore[attr-defined]
        turn = session.turn()
        with pytest.raises(Full):
            await session.commit(turn=turn, messages=columns(1, 2, bodies=[b"small", b"x" * 100_000]))
        assert await session.lane.messages([], [(PART, 1)]) == []
        await session.commit(turn=turn, messages=columns(1))

    async def test_a_closed_lane_is_lost(self, session: Session) -> None:
        await session.lane.close()
        with pytest.raises(Lost):
            await session.lane.lock(Scope())
        with pytest.raises(Lost):
            await session.lane.parts_due(0)

    async def test_a_transaction_is_begun_once_and_written_only_then(self, session: Session) -> None:
        with pytest.raises(Misuse):
            await session.lane.write(session.changes(0))
        await session.lane.lock(Scope())
        with pytest.raises(Misuse):
            await session.lane.lock(Scope())
        with pytest.raises(Misuse):
            await session.lane.delete_writers(0)

    async def test_views_for_people(self, session: Session, store: Store, outside: sqlite3.Connection) -> None:
        entries = [entry(5, "orders"), entry(PART, "5/0", "partition", parent=5), entry(SUB, "orders", "subscription")]
        await store.control.apply(inserts=entries)
        await session.commit(
            messages=columns(1, 2, 3, at=1_700_000_000_123), pages=[page(0, frontier=3, outstanding=1)]
        )  # fmt: skip
        subscriptions = outside.execute("select * from rowlock_subscriptions").fetchall()
        assert subscriptions == [("orders", "orders", PART, 3, 3, 1, 2)]
        assert outside.execute("select * from rowlock_queues").fetchall() == [("orders", 1, 2, 1)]
        first = outside.execute("select * from rowlock_messages order by seq").fetchone()
        assert first == ("orders", PART, 1, f"{1:032x}", b"0123456789", "2023-11-14 22:13:20.123")

    async def test_views_show_every_lane(
        self, new_store: NewStore, reopen: Reopen, outside: sqlite3.Connection
    ) -> None:
        store = new_store()
        await store.open(lanes=3)
        await store.close()
        definition = outside.execute("select sql from sqlite_master where name = 'rowlock_messages'").fetchone()[0]
        assert all(f"lane{n}_messages" in definition for n in range(3))

    async def test_every_statement_of_a_lane_uses_a_key(self, session: Session, outside: sqlite3.Connection) -> None:
        """But for rows that came in as JSON, for subqueries that are bounded, and for two tables that stay small."""
        harmless = ("SCAN wanted", "SCAN (subquery", "SCAN CONSTANT ROW", "SCAN lane0_delays", "SCAN lane0_writers")
        for name, sql in load("rowlock.store.sqlite", "lane.sql", lane="lane0").items():
            values = ["[]"] * sql.count("?") or dict.fromkeys(
                ("part", "sub", "start", "steps", "now", "limit", "change")
            )
            plan = [row[3] for row in outside.execute(f"explain query plan {sql}", values)]
            assert [step for step in plan if step.startswith("SCAN") and not step.startswith(harmless)] == [], name


class TestErrors:
    @pytest.mark.parametrize(("code", "kind"), FAULTS.items())
    def test_every_code_of_the_table(self, code: int, kind: type[Exception]) -> None:
        error = sqlite3.OperationalError("told so")
        error.sqlite_errorcode = code | 0x300
        assert type(fault(error)) is kind

    def test_a_key_that_is_taken_is_a_lost_race(self) -> None:
        connection = sqlite3.connect(":memory:")
        connection.execute("create table t (a integer, b text, primary key (a, b))")
        with pytest.raises(sqlite3.IntegrityError) as caught:
            connection.executemany("insert into t values (1, ?)", ["x", "x"])
        connection.close()
        assert type(fault(caught.value)) is Contended

    def test_what_is_not_in_the_table_is_a_defect(self) -> None:
        error = sqlite3.OperationalError("no such table")
        error.sqlite_errorcode = sqlite3.SQLITE_ERROR
        assert type(fault(error)) is Misuse
        assert type(fault(sqlite3.ProgrammingError("wrong number of bindings"))) is Misuse

    def test_the_drivers_own_refusals_are_the_callers_data(self) -> None:
        connection = sqlite3.connect(":memory:")
        for value in (2**63, "\ud800"):
            with pytest.raises((OverflowError, UnicodeError)) as caught:
                connection.execute("select ?", (value,))
            assert type(fault(caught.value)) is Rejected
        connection.close()

    def test_a_flush_that_fails_in_commit_leaves_the_outcome_unknown(self) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        found = fault(error, committing=True)
        assert isinstance(found, Lost)
        assert found.committing
