"""MariaDB: what can go wrong is told apart, and leaves neither half a transaction nor a half-read connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from asyncmy.constants import CR, ER
from asyncmy.errors import InternalError

from rowlock import limits
from rowlock.errors import InvalidArgument, ServerTooOld, ServerUnsafe
from rowlock.store import faults
from rowlock.store.faults import Contended, Full, Lost, Misuse, NotReplicated, Rejected, StoreFault
from rowlock.store.mariadb import MariadbStore
from rowlock.store.mariadb.address import Address, parse
from rowlock.store.mariadb.connection import Connection, connect, packets
from rowlock.store.mariadb.errors import FAULTS, fault, fault_class
from rowlock.store.mariadb.literals import batches, inserts
from rowlock.store.mariadb.reading import cursor_statements
from rowlock.store.mariadb.server import server_of
from rowlock.store.port import Changes, Durability, PageDrop, Scope

from .session import PART, SUB, Fixtures, columns, page, partition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .session import NewStore, OpenSession, Session

PATIENCE_SECONDS = 20
SCOPE = Scope(parts=[PART], cursors=[(PART, SUB)])


class TestTable:
    def test_every_number_has_a_class(self) -> None:
        known = {value for module in (ER, CR) for value in vars(module).values() if isinstance(value, int)}
        assert len(known) > 500
        assert {fault_class(number, None) for number in known} == {Contended, Lost, Full, Rejected, Misuse}

    def test_every_class_is_raised_by_some_number(self) -> None:
        classes = {c for c in vars(faults).values() if isinstance(c, type) and issubclass(c, StoreFault)}
        by_no_number = {StoreFault, NotReplicated, Misuse}
        assert set(FAULTS.values()) == classes - by_no_number

    @pytest.mark.parametrize(
        ("kind", "wanted"),
        [
            (Contended, [1213, 1205, 1062, 1242]),
            (Lost, [2003, 2006, 2013, 1047, 1290, 1053, 1927, 1040, 1836]),
            (Full, [1021, 1114, 1026, 1030]),
            (Rejected, [1264, 1366, 1406, 1153]),
            (Misuse, [1064, 1146, 1054, 1142, 65_000]),
        ],
    )
    def test_the_numbers_of_the_design(self, kind: type[StoreFault], wanted: list[int]) -> None:
        assert {fault_class(number, "HY000") for number in wanted} == {kind}

    @pytest.mark.parametrize(
        ("state", "kind"),
        [("40001", Contended), ("08S01", Lost), ("22001", Rejected), ("23000", Rejected), ("42000", Misuse)],
    )
    def test_the_state_tells_what_an_unknown_number_does_not(self, state: str, kind: type[StoreFault]) -> None:
        assert fault_class(65_000, state) is kind

    def test_only_a_lost_connection_leaves_the_outcome_open(self) -> None:
        lost = fault(1927, "70100", "killed", committing=True)
        assert isinstance(lost, Lost)
        assert lost.committing
        assert type(fault(1213, "40001", "deadlock", committing=True)) is Contended


class OnMariadb(Fixtures):
    @pytest.fixture
    def new_store(self, mariadb_url: str) -> NewStore:
        return lambda: MariadbStore(mariadb_url)

    @pytest.fixture
    def address(self, mariadb_url: str) -> Address:
        return parse(mariadb_url)

    @pytest.fixture
    async def connection(self, address: Address) -> AsyncIterator[Connection]:
        connection = await connect(address, Durability.LOCAL)
        columns = "id INT PRIMARY KEY, n TINYINT NOT NULL, s VARCHAR(3) CHARACTER SET utf8mb4"
        await connection.run(f"CREATE TABLE t ({columns}) ENGINE = InnoDB")
        await connection.run("INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
        yield connection
        connection.drop()

    @pytest.fixture
    async def other(self, address: Address) -> AsyncIterator[Connection]:
        other = await connect(address, Durability.LOCAL)
        yield other
        other.drop()


FENCE = "SET @rowlock_fence = IF(ROW_COUNT() = {}, 1, (SELECT 1 UNION ALL SELECT 2))"
ALL = "SELECT id, n FROM t ORDER BY id"


class TestPackets(OnMariadb):
    @pytest.mark.parametrize(("found", "change"), [(1, "n = 9 WHERE id = 1"), (2, "n = 9"), (1, "n = 1 WHERE id = 1")])
    async def test_a_fence_lets_pass_what_it_expects(self, connection: Connection, found: int, change: str) -> None:
        """Also rows that were so already: they are found, though not changed."""
        await connection.transact(f"UPDATE t SET {change}", FENCE.format(found))

    @pytest.mark.parametrize("found", [0, 2])
    async def test_a_fence_aborts_before_the_commit_of_its_packet(
        self, connection: Connection, other: Connection, found: int
    ) -> None:
        with pytest.raises(Contended):
            await connection.transact("UPDATE t SET n = 9 WHERE id = 1", FENCE.format(found), "DELETE FROM t")
        assert await other.rows(ALL) == ((1, 1), (2, 2))
        await other.run("SET innodb_lock_wait_timeout = 1")
        await other.run("UPDATE t SET n = 5 WHERE id = 1")  # no lock was left behind
        assert await connection.rows(ALL) == ((1, 5), (2, 2))

    @pytest.mark.parametrize(
        ("statement", "kind"),
        [
            ("INSERT INTO t VALUES (3, 1000, 'c')", Rejected),
            ("INSERT INTO t VALUES (3, 3, 'long')", Rejected),
            ("INSERT INTO t VALUES (3, NULL, 'c')", Rejected),
            ("INSERT INTO t VALUES (3, 3, x'ff')", Rejected),
            ("INSERT INTO t VALUES (1, 3, 'c')", Contended),
            ("INSERT INTO nowhere VALUES (1)", Misuse),
            ("SELEKT 1", Misuse),
        ],
    )
    async def test_after_any_error_the_transaction_is_undone_and_the_connection_good(
        self, connection: Connection, statement: str, kind: type[StoreFault]
    ) -> None:
        with pytest.raises(kind):
            await connection.transact("UPDATE t SET n = 9", statement)
        assert not connection.in_transaction
        await connection.transact("UPDATE t SET n = 3 WHERE id = 2")
        assert await connection.rows(ALL) == ((1, 1), (2, 3))

    async def test_a_transaction_that_was_left_open_is_not_committed_by_the_next(self, connection: Connection) -> None:
        await connection.begin("UPDATE t SET n = 9")
        await connection.begin("UPDATE t SET n = 3 WHERE id = 2")
        await connection.commit()
        assert await connection.rows(ALL) == ((1, 1), (2, 3))

    async def test_a_deadlock_is_contention(self, connection: Connection, other: Connection) -> None:
        await connection.begin("UPDATE t SET n = 9 WHERE id = 1")
        await other.begin("UPDATE t SET n = 9 WHERE id = 2")
        tasks = [
            asyncio.create_task(connection.commit("UPDATE t SET n = 8 WHERE id = 2")),
            asyncio.create_task(other.commit("UPDATE t SET n = 8 WHERE id = 1")),
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results if isinstance(result, Exception)] == [Contended]

    async def test_a_lock_that_is_not_free_is_contention(self, connection: Connection, other: Connection) -> None:
        await connection.begin("UPDATE t SET n = 9 WHERE id = 1")
        await other.run("SET innodb_lock_wait_timeout = 1")
        with pytest.raises(Contended):
            await other.transact("UPDATE t SET n = 8 WHERE id = 2", "UPDATE t SET n = 8 WHERE id = 1")
        await connection.commit("UPDATE t SET n = 9 WHERE id = 2")  # which `other` would hold, had it not been undone
        assert await other.rows(ALL) == ((1, 9), (2, 9))

    def test_statements_travel_together_where_they_fit(self) -> None:
        assert list(packets(["aaa", "bbb", "cc", "COMMIT"], 9)) == [["aaa", "bbb"], ["cc", "COMMIT"]]
        with pytest.raises(Rejected, match="10 bytes"):
            list(packets(["a", "b" * 10], 9))

    def test_rows_are_divided_among_statements(self) -> None:
        assert list(inserts("V %(rows)s", ["(1)", "(2)", "(3)"], 18)) == ["V (1),(2)", "V (3)"]
        with pytest.raises(Rejected, match="50 bytes"):
            list(inserts("V %(rows)s", ["(1)", "x" * 50], 40))
        assert [len(batch) for batch in batches([(1, b"x" * 100)] * 5, 600)] == [2, 2, 1]
        with pytest.raises(Rejected, match="max_allowed_packet"):
            list(batches([(1, b"x" * 1_000)], 600))

    async def test_a_transaction_larger_than_a_packet_is_one(self, connection: Connection, other: Connection) -> None:
        connection.packet_bytes = 60
        await connection.transact(*(f"INSERT INTO t VALUES ({n}, 1, 'x')" for n in range(10, 20)))
        assert len(await other.rows(ALL)) == 12
        with pytest.raises(Contended):
            await connection.transact(*(f"INSERT INTO t VALUES ({n}, 1, 'x')" for n in (30, 31, 32, 10)))
        assert len(await other.rows(ALL)) == 12


async def wait_for(watcher: Connection, found: bool, condition: str) -> None:
    """Until some session is as the condition says, or none is."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            sessions = await watcher.rows(f"SELECT id FROM information_schema.processlist WHERE {condition}")
            if bool(sessions) == found:
                return
            await asyncio.sleep(0.01)


async def number_of(connection: Connection) -> int:
    ((number,),) = await connection.rows("SELECT CONNECTION_ID()")
    return int(number)


async def kill(killer: Connection, victim: Connection) -> None:
    number = await number_of(victim)
    await killer.run(f"KILL {number}")
    await wait_for(killer, False, f"id = {number}")


class TestLostConnections(OnMariadb):
    async def test_killed_before_the_commit_was_sent(self, connection: Connection, other: Connection) -> None:
        await connection.begin("UPDATE t SET n = 9")
        await kill(other, connection)
        with pytest.raises(Lost) as lost:
            await connection.run("UPDATE t SET n = 8")
        assert not lost.value.committing
        assert not connection.alive
        with pytest.raises(Lost) as lost:
            await connection.commit()
        assert not lost.value.committing
        assert await other.rows(ALL) == ((1, 1), (2, 2))

    async def test_killed_when_the_packet_with_commit_is_sent(self, connection: Connection, other: Connection) -> None:
        await connection.begin("UPDATE t SET n = 9")
        await kill(other, connection)
        with pytest.raises(Lost) as lost:
            await connection.commit("UPDATE t SET n = 8")
        assert lost.value.committing

    async def test_killed_in_a_statement_before_commit(self, connection: Connection, other: Connection) -> None:
        """The server, or the closed socket, tells. Only a server that names the statement closes the question."""
        number = await number_of(connection)
        running = asyncio.create_task(connection.transact("UPDATE t SET n = 9", "SELECT SLEEP(60)"))
        await wait_for(other, True, f"id = {number} AND info LIKE '%SLEEP%'")
        await other.run(f"KILL {number}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            with pytest.raises(Lost):
                await running
        assert await other.rows(ALL) == ((1, 1), (2, 2))

    @pytest.mark.parametrize(("failing", "open_question"), [(0, False), (1, False), (2, True)])
    async def test_the_server_names_the_statement_that_failed(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, failing: int, open_question: bool
    ) -> None:
        await self._failing(connection, monkeypatch, failing, (1053, "Server shutdown in progress"))
        with pytest.raises(Lost) as lost:
            await connection.commit("UPDATE t SET n = 9", "UPDATE t SET n = 8")
        assert lost.value.committing is open_question

    @pytest.mark.parametrize("failing", [0, 1, 2])
    async def test_a_driver_that_is_confused_leaves_the_outcome_open(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch, failing: int
    ) -> None:
        await self._failing(connection, monkeypatch, failing, ("Packet sequence number wrong",))
        with pytest.raises(Lost) as lost:
            await connection.commit("UPDATE t SET n = 9", "UPDATE t SET n = 8")
        assert lost.value.committing
        assert not connection.alive

    async def _failing(self, connection: Connection, monkeypatch: pytest.MonkeyPatch, at: int, facts: Any) -> None:
        """The answer to one statement of the next packet is an error."""
        answers: list[None] = []

        async def query(statements: str, found: list[Any]) -> None:
            for _ in statements.split(";"):
                if len(answers) == at:
                    raise InternalError(*facts)
                answers.append(None)
                found.append(None)

        monkeypatch.setattr(connection, "_query", query)

    async def test_the_deadline_drops_the_socket(
        self, connection: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "CYCLE_DEADLINE_SECONDS", 0.05)
        with pytest.raises(Lost) as lost:
            await connection.transact("UPDATE t SET n = 9", "SELECT SLEEP(0.5)")
        assert lost.value.committing
        assert not connection.alive

    async def test_a_cancelled_task_leaves_no_half_read_connection(
        self, connection: Connection, other: Connection
    ) -> None:
        await other.begin("SELECT 1 FROM t WHERE id = 1 FOR UPDATE")
        waiting = asyncio.create_task(connection.transact("UPDATE t SET n = 9 WHERE id = 1"))
        await asyncio.wait([waiting], timeout=0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not connection.alive
        with pytest.raises(Lost):
            await connection.rows(ALL)

    async def test_a_stalled_session_loses_its_locks(self, connection: Connection, other: Connection) -> None:
        ((seconds,),) = await connection.rows("SELECT @@idle_transaction_timeout")
        assert seconds == limits.LOCK_HOLD_SECONDS
        await connection.run("SET idle_transaction_timeout = 1")
        await connection.begin("UPDATE t SET n = 9")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await other.run("UPDATE t SET n = 5 WHERE id = 1")
        assert await other.rows(ALL) == ((1, 5), (2, 2))

    async def test_nobody_answers(self, tmp_path: Any) -> None:
        store = MariadbStore(f"mysql://root@localhost/x?unix_socket={tmp_path}/none")
        with pytest.raises(Lost, match="cannot connect to the database 'x'"):
            await store.open()

    async def test_control_reconnects_by_itself(self, mariadb_url: str, other: Connection) -> None:
        store = MariadbStore(mariadb_url)
        await store.open()
        first = await store.control.allocate(5)
        control: Any = store.control
        await kill(other, control._connection)
        assert await store.control.allocate(1) >= first + 5
        await store.close()


class TestLane(OnMariadb):
    async def test_a_lane_that_lost_its_connection_can_be_looked_up(
        self, session: Session, open_session: OpenSession, other: Connection
    ) -> None:
        view = await session.lane.lock(SCOPE)
        lane: Any = session.lane
        await kill(other, lane._connection)
        changes = Changes(turn=session.turn(), decided_at=view.clock, messages=columns(1))
        with pytest.raises(Lost) as lost:
            await session.lane.write(changes)
        assert lost.value.committing
        heir = await open_session()
        assert not await heir.lane.fence(changes.turn)
        assert await heir.lane.messages([], [(PART, 1)]) == []
        await heir.commit(SCOPE, messages=columns(1))

    @pytest.mark.parametrize("count", [99, 100, 1_000])
    async def test_messages_by_literals_and_in_bulk_are_the_same(self, session: Session, count: int) -> None:
        seqs = range(1, count + 1)
        keys = [None, *(f"key' \\ é 😀 {n} " for n in seqs[1:])]
        bodies = [bytes([n % 256]) * (n % 50) for n in seqs]
        origins = [None] * (count - 1) + [b"\x00'\\"]
        await session.commit(
            SCOPE, messages=columns(*seqs, keys=keys, bodies=bodies, origins=origins, attributes=[None] * count)
        )
        found = await session.lane.messages([], [(PART, seq) for seq in seqs])
        assert [message.key for message in found] == keys
        assert [message.body for message in found] == bodies
        assert [message.origin for message in found] == origins
        assert {message.attributes for message in found} == {None}

    @pytest.mark.parametrize("bad", ["k" * 129, "lone \ud800 surrogate"], ids=["long", "no text"])
    @pytest.mark.parametrize("count", [2, 100])
    async def test_a_refused_message_undoes_all(self, session: Session, count: int, bad: str) -> None:
        view = await session.lane.lock(SCOPE)
        turn = session.turn()
        with pytest.raises(Rejected):
            await session.finish(
                view, turn=turn, messages=columns(*range(1, count + 1), keys=["k"] * (count - 1) + [bad])
            )
        assert await session.lane.messages([], [(PART, 1)]) == []
        await session.commit(SCOPE, turn=turn, messages=columns(1))

    async def test_rows_of_others_hold_up_nobody(self, session: Session, other: Connection) -> None:
        """Tables as small as these would be read whole, and every row on the way waited for."""
        cursors = [(PART, SUB + n) for n in range(1, 4)]
        pages = [page(n) for n in range(3)]
        await session.commit(cursors=[(*cursor, 1) for cursor in cursors], pages=pages)
        await other.begin(
            f"SELECT 1 FROM rowlock_lane0_cursors WHERE part = {PART} AND sub = {SUB} FOR UPDATE",
            f"INSERT INTO rowlock_lane0_pages VALUES ({PART}, {SUB}, 5, 0, 1, 1, 0, 1, '')",
        )
        drops = [PageDrop(PART, SUB, each.row.page, 0, each.row.stamp) for each in pages]
        async with asyncio.timeout(limits.LOCK_HOLD_SECONDS / 2):
            await session.commit(Scope(cursors=cursors), dropped_pages=drops, removed_cursors=cursors)

    async def test_a_lock_row_that_is_missing_holds_up_nobody(
        self, session: Session, open_session: OpenSession
    ) -> None:
        """In any other isolation the gap where it would be is locked."""
        other = await open_session()
        view = await session.lane.lock(Scope(parts=[PART + 5], cursors=[(PART, SUB + 5)]))
        async with asyncio.timeout(limits.LOCK_HOLD_SECONDS / 2):
            await other.commit(partitions=[partition(PART + 4)], cursors=[(PART, SUB + 4, 1)])
        await session.finish(view)

    @pytest.mark.parametrize("scope", [Scope(parts=[PART]), Scope(cursors=[(PART, SUB)])])
    async def test_each_kind_of_row_is_locked(self, session: Session, other: Connection, scope: Scope) -> None:
        view = await session.lane.lock(scope)
        table = "cursors" if scope.cursors else "partitions"
        found = await other.rows(f"SELECT 1 FROM rowlock_lane0_{table} WHERE part = {PART} FOR UPDATE SKIP LOCKED")
        assert found == ()
        await session.finish(view)

    def test_locks_are_taken_in_order(self) -> None:
        cursors = [(4, 7), (3, 2), (1, 9), (3, 1), (2, 5)]
        statements = list(cursor_statements("named %(pairs)s", "of %(numbers)s", cursors, [4, 2, 5]))
        assert statements == ["named '[[1,9]]'", "of '[2]'", "named '[[3,1],[3,2]]'", "of '[4,5]'"]


VARIABLES = {
    "version": "10.11.6-MariaDB",
    "max_allowed_packet": "16777216",
    "read_only": "OFF",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "log_bin": "OFF",
    "sync_binlog": "0",
    "binlog_format": "MIXED",
}
BINLOG = {"log_bin": "ON", "sync_binlog": "1"}


class TestServers:
    @pytest.mark.parametrize(
        ("changed", "durability"),
        [
            ({}, Durability.LOCAL),
            ({"version": "8.0.36"}, Durability.LOCAL),
            ({"version": "11.4.2-MariaDB-log"}, Durability.LOCAL),
            (BINLOG, Durability.LOCAL),
            ({"innodb_flush_log_at_trx_commit": "2"}, Durability.RELAXED),
        ],
    )
    def test_fit(self, changed: dict[str, str], durability: Durability) -> None:
        server_of((VARIABLES | changed).items()).check(durability)

    @pytest.mark.parametrize(
        ("changed", "durability", "error", "says"),
        [
            ({"version": "10.5.9-MariaDB"}, Durability.LOCAL, ServerTooOld, "10.6"),
            ({"version": "5.7.44"}, Durability.RELAXED, ServerTooOld, "8.0"),
            ({"innodb_flush_log_at_trx_commit": "2"}, Durability.LOCAL, ServerUnsafe, "set it to 1"),
            ({"innodb_doublewrite": "OFF"}, Durability.LOCAL, ServerUnsafe, "half written"),
            (BINLOG | {"sync_binlog": "0"}, Durability.LOCAL, ServerUnsafe, "sync_binlog = 0"),
            (BINLOG | {"binlog_format": "STATEMENT"}, Durability.LOCAL, ServerUnsafe, "READ COMMITTED"),
            ({"read_only": "ON"}, Durability.RELAXED, Lost, "read-only"),
            ({}, Durability.REPLICATED, NotReplicated, "PostgreSQL"),
        ],
    )
    def test_unfit(self, changed: dict[str, str], durability: Durability, error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            server_of((VARIABLES | changed).items()).check(durability)

    @pytest.mark.parametrize(
        "url", ["postgresql://h/d", "mysql://h", "mysql://h:x/d", "mysql://h/d?ssl=1", "mysql://h/a/b"]
    )
    def test_addresses_that_are_none(self, url: str) -> None:
        with pytest.raises(InvalidArgument, match="the database's address"):
            MariadbStore(url)

    def test_an_address(self) -> None:
        assert parse("mariadb://a%40b:p%2Fw@h:3307/d") == Address("a@b", "p/w", "h", 3307, "d", None)
        assert "p/w" not in str(parse("mariadb://a:p%2Fw@h/d"))
        assert parse("mysql:///d?unix_socket=/x/y").unix_socket == "/x/y"
