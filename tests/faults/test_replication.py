"""PostgreSQL with standbys: what a lost standby stops and what not, and what a failover leaves of what was promised."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import rowlock
from rowlock import limits
from rowlock.errors import DurabilityUnavailable, NotFound, OutcomeUnknown
from rowlock.localservers import LocalPostgres, LocalStandby
from rowlock.store.postgres import connect

from .load import Load, log_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rowlock import Broker

pytestmark = pytest.mark.slow

HOLD_SECONDS = 600
SYNCHRONOUS = {"synchronous_standby_names": "*"}
STREAMING = "select count(*) from pg_stat_replication where state = 'streaming' and sync_state in ('sync', 'quorum')"


async def demand_standby(server: LocalPostgres) -> None:
    """From now on, replicated commits wait for a standby; returns when one streams."""
    server.sql("alter system set synchronous_standby_names = '*'")
    server.sql("select pg_reload_conf()")
    await until(lambda: server.sql(STREAMING).strip() == "1")


def either(*servers: LocalPostgres) -> str:
    """The address of whichever of them accepts writes."""
    hosts = ",".join(str(server.directory) for server in servers)
    return f"postgresql://postgres@/rowlock?host={hosts}&port=5432"


async def drain(broker: Broker, name: str) -> list[bytes]:
    found = []
    while messages := await broker.claim(name, 100, visibility_timeout=HOLD_SECONDS):
        found += [message.body for message in messages]
        await broker.settle(messages)
    return found


# The standby goes away


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[LocalPostgres, LocalStandby]]:
    with LocalPostgres() as primary, LocalStandby(primary) as standby:
        yield primary, standby


@pytest.fixture
async def replicated(pair: tuple[LocalPostgres, LocalStandby]) -> AsyncIterator[str]:
    """An empty database on a primary with a synchronous standby."""
    primary, standby = pair
    standby.start()
    await demand_standby(primary)
    yield primary.create_database()
    standby.start()


@pytest.fixture
async def broker(replicated: str) -> AsyncIterator[Broker]:
    async with rowlock.open(replicated, owner="tester", patience=2.0) as broker:
        await broker.create_queue("safe", durability="replicated")
        await broker.create_queue("plain")
        yield broker


async def test_a_lost_standby_stops_replicated_topics_and_no_others(
    broker: Broker, pair: tuple[LocalPostgres, LocalStandby], replicated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, standby = pair
    await broker.publish("safe", b"before")
    monkeypatch.setattr(limits, "CYCLE_DEADLINE_SECONDS", 1.0)
    standby.kill()
    with pytest.raises(OutcomeUnknown, match="may have been stored"):
        await broker.publish("safe", b"perhaps")
    with pytest.raises(DurabilityUnavailable, match=r"Nothing was stored: .*standby"):
        await broker.publish("safe", b"refused")
    await broker.publish("plain", b"goes on")
    assert await drain(broker, "plain") == [b"goes on"]
    with pytest.raises(DurabilityUnavailable, match="standby"):
        await broker.create_queue("another", durability="replicated")
    await asyncio.to_thread(standby.start)
    await until(lambda: pair[0].sql(STREAMING).strip() == "1")
    await broker.publish("safe", b"after")
    log = [message.body for message in await log_of(broker, "safe")]
    assert log in ([b"before", b"after"], [b"before", b"perhaps", b"after"])
    assert await drain(broker, "safe") == log


async def test_a_stalled_standby_is_waited_for(broker: Broker, pair: tuple[LocalPostgres, LocalStandby]) -> None:
    _, standby = pair
    await broker.publish("safe", b"before")
    standby.pause()
    try:
        publishing = asyncio.create_task(broker.publish("safe", b"waits"))
        await broker.publish("plain", b"goes on")
        assert not publishing.done()
    finally:
        standby.resume()
    await publishing
    assert await drain(broker, "safe") == [b"before", b"waits"]


async def test_replicated_durability_needs_a_standby(postgres_url: str) -> None:
    async with rowlock.open(postgres_url, owner="tester") as broker:
        with pytest.raises(DurabilityUnavailable, match="synchronous_standby_names is empty"):
            await broker.create_queue("safe", durability="replicated")
        with pytest.raises(NotFound):
            await broker.show_queue("safe")


# The primary goes away


async def test_a_failover_loses_nothing_that_was_replicated() -> None:
    """Callers wait while the standby is read-only, and go on when it is promoted (with a standby of its own)."""
    with ExitStack() as servers:
        primary = servers.enter_context(LocalPostgres())
        first = servers.enter_context(LocalStandby(primary, SYNCHRONOUS))
        servers.enter_context(LocalStandby(first))
        await demand_standby(primary)
        async with rowlock.open(either(primary, first), owner="tester") as broker:
            load = await Load.begin(broker, durability="replicated")
            try:
                await load.progresses()
                primary.kill()
                (cycle,) = broker._engine.cycles.values()
                await until(lambda: cycle.trouble is not None)
                await asyncio.to_thread(first.promote)
                await load.progresses()
                await load.finish()
            finally:
                await load.close()
            await load.check()
            assert not load.refused
            assert not load.unknown


class Lagging:
    """A primary, and an asynchronous standby that can be kept behind."""

    def __init__(self, primary: LocalPostgres, standby: LocalStandby):
        self.primary = primary
        self.standby = standby
        self.url = either(primary, standby)

    async def cut_off(self) -> None:
        """What is written from now on never comes to the standby; all before did."""
        lag = "select count(*) from pg_stat_replication where replay_lsn = pg_current_wal_lsn()"
        await until(lambda: self.primary.sql(lag).strip() == "1")
        self.standby.sql("alter system set primary_conninfo = ''")
        self.standby.sql("select pg_reload_conf()")
        await until(lambda: self.standby.sql("select count(*) from pg_stat_wal_receiver").strip() == "0")

    async def fail_over(self) -> None:
        await asyncio.to_thread(self.primary.kill)
        await asyncio.to_thread(self.standby.promote)


@pytest.fixture
def lagging() -> Iterator[Lagging]:
    with LocalPostgres() as primary, LocalStandby(primary) as standby:
        yield Lagging(primary, standby)


async def test_a_standby_that_is_behind_is_believed(lagging: Lagging) -> None:
    """The broker remembers messages and settles that the database has lost: it goes by the database."""
    async with rowlock.open(lagging.url, owner="tester") as broker:
        await broker.create_queue("q")
        await broker.publish("q", [b"one", b"two"])
        (one,) = await broker.claim("q", visibility_timeout=HOLD_SECONDS)
        assert one.body == b"one"
        await lagging.cut_off()
        await broker.publish("q", [b"lost", b"lost too"])
        (two,) = await broker.claim("q", visibility_timeout=HOLD_SECONDS)
        await two.settle()
        await lagging.fail_over()
        async with rowlock.open(lagging.url, owner="tester") as other:
            await other.publish("q", b"after")
        assert await drain(broker, "q") == [b"two", b"after"]
        await one.settle()
        depth = await broker.depth("q")
        assert (depth.ready, depth.in_flight) == (0, 0)
        assert [message.seq for message in await log_of(broker, "q")] == [1, 2, 3]


async def test_a_queue_that_the_standby_does_not_know_is_not_mistaken_for_another(lagging: Lagging) -> None:
    """Its ids are given to another queue after the failover: what the broker has cached of it fits nothing."""
    async with rowlock.open(lagging.url, owner="tester") as broker:
        await broker.create_queue("known")
        await broker.publish("known", b"here")
        await lagging.cut_off()
        await broker.create_queue("forgotten")
        await broker.publish("forgotten", b"lost")
        await lagging.fail_over()
        async with rowlock.open(lagging.url, owner="tester") as other:
            await other.create_queue("new")
            with pytest.raises(NotFound):
                await broker.publish("forgotten", b"astray")
            with pytest.raises(NotFound):
                await broker.claim("forgotten")
            assert await drain(other, "new") == []
        assert await drain(broker, "known") == [b"here"]


async def test_a_primary_that_stands_still_is_passed_over(lagging: Lagging, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and says nothing: the next host of the address is asked."""
    monkeypatch.setattr(limits, "CYCLE_DEADLINE_SECONDS", 1.0)
    monkeypatch.setattr(connect, "CONNECT_SECONDS", 1.0)
    async with rowlock.open(lagging.url, owner="tester") as broker:
        await broker.create_queue("q")
        await broker.publish("q", b"before")
        await lagging.cut_off()
        lagging.primary.pause()
        await asyncio.to_thread(lagging.standby.promote)
        await broker.publish("q", b"after")
        assert await drain(broker, "q") == [b"before", b"after"]


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://u:p@one:1,two:2/db?sslmode=require", ["u:p@one:1", "u:p@two:2"]),
        ("postgresql://one,two/db?sslmode=require", ["one", "two"]),
        ("postgresql://u@one/db?sslmode=require", ["u@one"]),
    ],
)
def test_an_address_may_name_several_hosts(url: str, hosts: list[str]) -> None:
    assert connect.each_host(url) == [f"postgresql://{host}/db?sslmode=require" for host in hosts]


def test_an_address_may_name_several_hosts_in_its_options() -> None:
    assert connect.each_host("postgresql://u@/db?host=/a,/b&port=7") == [
        "postgresql://u@/db?host=%2Fa&port=7",
        "postgresql://u@/db?host=%2Fb&port=7",
    ]
    assert connect.each_host("postgresql://u@/db?host=/a,/b&port=7,8")[1] == "postgresql://u@/db?host=%2Fb&port=8"
