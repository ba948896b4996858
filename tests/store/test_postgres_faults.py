"""PostgreSQL: what errors mean, and what becomes of a transaction whose connection, server or standby goes away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncpg
import pytest

from rowlock import limits
from rowlock.errors import InvalidArgument, ServerTooOld, ServerUnsafe
from rowlock.localservers import LocalPostgres
from rowlock.store.faults import Contended, Full, Lost, Misuse, NotReplicated, Rejected, StoreFault
from rowlock.store.port import Durability, Scope
from rowlock.store.postgres import PostgresStore, connect
from rowlock.store.postgres.errors import BY_CLASS, fault_of

from .session import PART, SUB, Session, columns, eventually, page, partition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rowlock.localservers import LocalServer
    from rowlock.store.port import Attempt, Changes

STANDBYS = "synchronous_standby_names"


# The table of errors


def known_sqlstates() -> list[str]:
    found = {getattr(one, "sqlstate", None) for one in vars(asyncpg.exceptions).values()}
    return sorted(state for state in found if isinstance(state, str))


def with_sqlstate(sqlstate: str) -> asyncpg.PostgresError:
    error = asyncpg.PostgresError("as told")
    error.sqlstate = sqlstate
    return error


def test_every_class_that_the_server_can_raise_is_in_the_table() -> None:
    states = known_sqlstates()
    assert len(states) > 200
    assert {state[:2] for state in states} <= set(BY_CLASS)


@pytest.mark.parametrize(
    ("sqlstates", "kind"),
    [
        ("RL001 23505 40001 40P01 55P03 57014 XX000", Contended),
        ("08000 08003 08006 57P01 57P02 57P03 57P05 53300 25006 25P03 40003", Lost),
        ("53100 58030 XX001", Full),
        ("22001 22003 22021 22P05 23502 23514 54000", Rejected),
        ("0A000 42501 42601 42P01 25P02 P0001 ZZ999", Misuse),
    ],
)
def test_codes_are_classified(sqlstates: str, kind: type[StoreFault]) -> None:
    assert {type(fault_of(with_sqlstate(state))) for state in sqlstates.split()} == {kind}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionResetError("gone"), Lost),
        (TimeoutError(), Lost),
        (asyncpg.InterfaceError("connection is closed"), Lost),
        (asyncpg.InternalClientError("got result for unknown protocol state"), Lost),
        (asyncpg.DataError("invalid input for query argument $1"), Rejected),
        (TypeError("a defect"), Misuse),
    ],
)
def test_the_drivers_errors_are_classified(error: Exception, kind: type[StoreFault]) -> None:
    assert type(fault_of(error)) is kind


def test_only_a_lost_connection_leaves_a_commit_unknown() -> None:
    fault = fault_of(ConnectionResetError("gone"), committing=True)
    assert isinstance(fault, Lost)
    assert fault.committing


# A server that many tests may share


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def admin(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def session_on(store: PostgresStore, durability: Durability = Durability.LOCAL) -> Session:
    session = Session(await store.lane(0, durability))
    await session.commit(partitions=[partition(PART)], cursors=[(PART, SUB, 1)])
    return session


async def terminate_others(admin: asyncpg.Connection) -> None:
    await admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and application_name = 'rowlock'"
    )


def publish(session: Session, clock: int) -> Changes:
    return session.changes(clock, expected_parts=[(PART, 1, 0)], messages=columns(1))


async def test_a_connection_lost_before_commit_was_sent_wrote_nothing(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    session = await session_on(store)
    view = await session.lane.lock(Scope(parts=[PART]))
    await terminate_others(admin)
    with pytest.raises(Lost) as lost:
        await session.finish(view, messages=columns(1))
    assert not lost.value.committing
    again = await store.lane(0, Durability.LOCAL)
    assert (await again.partition_rows([PART]))[0].last == 0
    await again.close()


async def test_an_attempt_whose_connection_is_lost_is_unknown_and_the_fence_decides_it(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    session, other = await session_on(store), Session(await store.lane(0, Durability.LOCAL))
    await admin.execute(f"begin; select 1 from rowlock_lane_0.partitions where part = {PART} for update")
    changes = publish(session, await session.lane.clock())
    attempt = asyncio.ensure_future(session.lane.attempt(changes))
    await eventually(lambda: waits(admin, "transactionid"))
    await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'transactionid'")
    with pytest.raises(Lost) as lost:
        await attempt
    assert lost.value.committing
    await admin.execute("rollback")
    assert not await other.lane.fence(changes.turn)
    other.last = changes.turn
    with pytest.raises(Contended):
        await other.lane.attempt(publish(other, await other.lane.clock()))
    await other.lane.close()


async def test_a_stalled_broker_holds_its_locks_for_a_bounded_time(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_HOLD_SECONDS", 1)
    stalled, other = await session_on(store), Session(await store.lane(0, Durability.LOCAL))
    view = await stalled.lane.lock(Scope(parts=[PART]))
    await asyncio.wait_for(other.commit(Scope(parts=[PART])), 5)
    with pytest.raises(Lost) as lost:
        await stalled.finish(view, messages=columns(1))
    assert not lost.value.committing
    await other.lane.close()


async def test_a_wait_for_a_lock_ends_before_the_deadline_does(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CYCLE_DEADLINE_SECONDS", 1.0)
    holder, waiter = await session_on(store), Session(await store.lane(0, Durability.LOCAL))
    await holder.lane.lock(Scope(parts=[PART]))
    with pytest.raises(Contended):
        await waiter.lane.lock(Scope(parts=[PART]))
    await holder.lane.rollback()
    await waiter.commit(Scope(parts=[PART]))
    await holder.lane.close()
    await waiter.lane.close()


@pytest.mark.parametrize("key", ["nul \x00", "surrogate \ud800"])
async def test_one_callers_bad_text_leaves_the_lane_usable(store: PostgresStore, key: str) -> None:
    session = await session_on(store)
    bad = session.changes(await session.lane.clock(), expected_parts=[(PART, 1, 0)], messages=columns(1, keys=[key]))
    with pytest.raises(Rejected):
        await session.lane.attempt(bad)
    assert (await session.lane.attempt(publish(session, await session.lane.clock()))).agreed
    await session.lane.close()


async def test_a_server_that_became_read_only_is_lost(store: PostgresStore, admin: asyncpg.Connection) -> None:
    session = await session_on(store)
    database = await admin.fetchval("select current_database()")
    await admin.execute(f"alter database {database} set default_transaction_read_only = on")
    with pytest.raises(Lost):
        await store.lane(0, Durability.LOCAL)
    await session.lane.close()


async def test_the_listener_comes_back_and_says_that_it_may_have_missed_something(
    store: PostgresStore, admin: asyncpg.Connection
) -> None:
    heard: list[object] = []
    listening = asyncio.ensure_future(store.listen(heard.append))

    async def hears(wanted: object) -> bool:
        await store.hint([1, 2])
        return wanted in heard

    await eventually(lambda: hears([1, 2]))
    await terminate_others(admin)
    await eventually(lambda: hears(None))
    await store.close()
    await listening


async def test_the_control_connection_mends_itself(store: PostgresStore, admin: asyncpg.Connection) -> None:
    await store.control.clock()
    await terminate_others(admin)
    assert await store.control.allocate(1) > 0


async def test_an_address_that_the_server_refuses_is_the_callers_mistake(postgres_url: str) -> None:
    wrong = PostgresStore(postgres_url.replace("/rowlock_", "/nowhere_"))
    with pytest.raises(InvalidArgument, match="does not exist"):
        await wrong.open()


async def test_an_old_server_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "NEEDED_VERSION", 990000)
    with pytest.raises(ServerTooOld, match="99 or newer"):
        await PostgresStore(postgres_url).open()


# A server whose settings a test may change


class Changeable:
    """A server, an empty database on it, and its settings."""

    def __init__(self, server: LocalServer):
        self._server = server
        self.url = server.create_database()

    def set(self, name: str, value: str) -> None:
        self._server.sql(f"alter system set {name} = '{value}'")
        self._server.sql("select pg_reload_conf()")
        self._server.sql("select pg_sleep(0)")

    async def until_set(self, name: str, value: str) -> None:
        async def is_set() -> bool:
            return self._server.sql(f"show {name}").strip() == value

        self.set(name, value)
        await eventually(is_set)

    async def until_waiting(self, event: str) -> None:
        async def is_waiting() -> bool:
            return "t" in self._server.sql(f"select exists (select from pg_stat_activity where wait_event = '{event}')")

        await eventually(is_waiting)

    def cancel_commits(self) -> None:
        self._server.sql("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")

    def close(self) -> None:
        for name in (STANDBYS, "fsync", "full_page_writes"):
            self._server.sql(f"alter system reset {name}")
        self._server.sql("select pg_reload_conf()")
        self._server.drop_database(self.url)


@pytest.fixture(scope="module")
def own_server() -> Iterator[LocalServer]:
    with LocalPostgres() as server:
        yield server


@pytest.fixture
def changeable(own_server: LocalServer) -> Iterator[Changeable]:
    changeable = Changeable(own_server)
    yield changeable
    changeable.close()


@pytest.fixture
async def own_store(changeable: Changeable) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(changeable.url)
    await store.open()
    yield store
    await store.close()


async def waits(admin: asyncpg.Connection, event: str) -> bool:
    return bool(await admin.fetchval("select exists (select from pg_stat_activity where wait_event = $1)", event))


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
async def test_a_server_that_would_lose_messages_is_refused(
    changeable: Changeable, own_store: PostgresStore, name: str
) -> None:
    await changeable.until_set(name, "off")
    with pytest.raises(ServerUnsafe, match=name):
        await own_store.lane(0, Durability.LOCAL)
    await (await own_store.lane(0, Durability.RELAXED)).close()


async def test_replicated_is_refused_while_no_standby_confirms(
    changeable: Changeable, own_store: PostgresStore
) -> None:
    with pytest.raises(NotReplicated, match="is empty"):
        await own_store.lane(0, Durability.REPLICATED)
    await changeable.until_set(STANDBYS, "nobody")
    with pytest.raises(NotReplicated, match="nobody"):
        await own_store.lane(0, Durability.REPLICATED)


@pytest.fixture
async def waiting(changeable: Changeable, own_store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session with durability `replicated` on a server whose standby has just gone away for good."""

    async def unchecked(*_: object) -> None:
        return None

    monkeypatch.setattr(connect, "_check_standby", unchecked)
    session = await session_on(own_store, Durability.REPLICATED)
    await changeable.until_set(STANDBYS, "nobody")
    return session


async def commit_that_waits(session: Session, changeable: Changeable) -> tuple[Changes, asyncio.Task[Attempt]]:
    changes = publish(session, await session.lane.clock())
    attempt = asyncio.ensure_future(session.lane.attempt(changes))
    await changeable.until_waiting("SyncRep")
    return changes, attempt


async def check_that_nothing_was_cancelled(changeable: Changeable, store: PostgresStore, changes: Changes) -> None:
    """The commit still waits for its standby; once it need not, it is there."""
    await changeable.until_waiting("SyncRep")
    reader = await store.lane(0, Durability.LOCAL)
    assert (await reader.partition_rows([PART]))[0].last == 0
    deciding = asyncio.ensure_future(reader.fence(changes.turn))
    await changeable.until_waiting("transactionid")
    changeable.set(STANDBYS, "")
    assert await deciding
    assert (await reader.partition_rows([PART]))[0].last == 1
    await reader.close()


async def test_a_deadline_drops_the_socket_and_never_cancels(
    changeable: Changeable, own_store: PostgresStore, waiting: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CYCLE_DEADLINE_SECONDS", 0.5)
    changes, attempt = await commit_that_waits(waiting, changeable)
    with pytest.raises(Lost) as lost:
        await attempt
    assert lost.value.committing
    monkeypatch.undo()
    await check_that_nothing_was_cancelled(changeable, own_store, changes)


async def test_a_cancelled_caller_drops_the_socket_and_never_cancels(
    changeable: Changeable, own_store: PostgresStore, waiting: Session
) -> None:
    changes, attempt = await commit_that_waits(waiting, changeable)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await check_that_nothing_was_cancelled(changeable, own_store, changes)


async def test_a_commit_that_somebody_else_cancelled_is_unknown(
    changeable: Changeable, own_store: PostgresStore, waiting: Session
) -> None:
    changes, attempt = await commit_that_waits(waiting, changeable)
    changeable.cancel_commits()
    with pytest.raises(Lost, match="ended by somebody") as lost:
        await attempt
    assert lost.value.committing
    changeable.set(STANDBYS, "")
    reader = await own_store.lane(0, Durability.LOCAL)
    assert await reader.fence(changes.turn)
    await reader.close()


async def test_a_lost_standby_does_not_stop_local_work(own_store: PostgresStore, waiting: Session) -> None:
    local = Session(await own_store.lane(0, Durability.LOCAL))
    await local.commit(partitions=[partition(PART)], pages=[page(0)])
    await local.lane.close()
    await waiting.lane.close()
