"""The answer to a COMMIT is lost, or the request comes late: what became of it is found out, and all happens once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import rowlock
from rowlock import limits
from rowlock.errors import OutcomeUnknown
from rowlock.store.mariadb.lane import MariadbLane
from rowlock.store.postgres import connect
from rowlock.store.postgres.lane import PostgresLane

from .load import DEADLINE_SECONDS, log_of, until
from .proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rowlock import Broker, ClaimedMessage
    from rowlock.broker.cycle import Cycle
    from rowlock.localservers import LocalServer
    from rowlock.store.port import Turn

    from .proxy import Link

pytestmark = pytest.mark.slow

HOLD_SECONDS = 600
COMMITS = {"postgres": b"", "mariadb": b"COMMIT"}
"""What the request that commits has in it: PostgreSQL is sent one request for a cycle that was decided from memory."""


@pytest.fixture(autouse=True)
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CYCLE_DEADLINE_SECONDS", 1.0)


@pytest.fixture
async def proxy(mortal: LocalServer) -> AsyncIterator[Proxy]:
    async with Proxy(mortal.socket) as proxy:
        yield proxy


@pytest.fixture
async def direct(mortal_url: str) -> AsyncIterator[Broker]:
    """A broker that reaches the server without the proxy."""
    async with rowlock.open(mortal_url, owner="tester") as direct:
        yield direct


@pytest.fixture
async def broker(mortal: LocalServer, mortal_url: str, proxy: Proxy, direct: Broker) -> AsyncIterator[Broker]:
    database = mortal_url.partition("?")[0].rpartition("/")[2]
    scheme, user = ("mysql", "root") if mortal.name == "mariadb" else ("postgresql", "postgres")
    url = f"{scheme}://{user}@127.0.0.1:{proxy.port}/{database}"
    await direct.create_queue("q")
    async with rowlock.open(url, owner="tester") as broker:
        yield broker


@pytest.fixture
async def link(broker: Broker, direct: Broker, proxy: Proxy, mortal: LocalServer) -> Link:
    """The connection of the broker's cycle, which has everything of the queue in its caches."""
    await broker.publish("q", b"first of all")
    (message,) = await broker.claim("q")
    await message.settle()
    await broker.publish("q", b"warm")
    marker = b"warm" if mortal.name == "postgres" else b"warm".hex().encode()
    cycle_of(broker)._contended = 0  # decide from memory, whatever was disputed before
    return proxy.link_of(marker)


def cycle_of(broker: Broker) -> Cycle:
    (cycle,) = broker._engine.cycles.values()
    return cycle


async def bodies(broker: Broker) -> list[bytes]:
    return [message.body for message in await log_of(broker, "q")]


async def rest(broker: Broker) -> list[ClaimedMessage]:
    return await broker.claim("q", 10, visibility_timeout=HOLD_SECONDS)


# The answer is lost


async def test_a_publish_whose_answer_is_lost_is_stored_once(
    mortal: LocalServer, broker: Broker, direct: Broker, link: Link
) -> None:
    link.swallow(COMMITS[mortal.name])
    (published,) = await broker.publish("q", b"once")
    assert link.is_deaf
    assert cycle_of(broker).counters.unknown == 1
    assert await bodies(direct) == [b"first of all", b"warm", b"once"]
    assert published.id == (await log_of(direct, "q"))[-1].id.hex()


async def test_a_claim_whose_answer_is_lost_is_the_callers(
    mortal: LocalServer, broker: Broker, direct: Broker, link: Link
) -> None:
    link.swallow(COMMITS[mortal.name])
    (message,) = await rest(broker)
    assert link.is_deaf
    assert (message.body, message.receives) == (b"warm", 1)
    assert not await rest(direct)
    await message.settle()
    assert (await direct.depth("q")).in_flight == 0


async def test_a_settle_whose_answer_is_lost_is_done(
    mortal: LocalServer, broker: Broker, direct: Broker, link: Link
) -> None:
    (message,) = await rest(broker)
    link.swallow(COMMITS[mortal.name])
    await message.settle()
    assert link.is_deaf
    assert not await rest(direct)
    assert (await direct.depth("q")).in_flight == 0


# The request comes late


class Fenced:
    """Sets `done` when a fence has decided what became of a turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.done = asyncio.Event()
        self.decisions: list[bool] = []
        for kind in (PostgresLane, MariadbLane):
            monkeypatch.setattr(kind, "fence", self._noted(kind.fence))

    def _noted(self, fence: Callable[..., Awaitable[bool]]) -> Callable[..., Awaitable[bool]]:
        async def noted(lane: object, turn: Turn) -> bool:
            self.decisions.append(await fence(lane, turn))
            self.done.set()
            return self.decisions[-1]

        return noted


@pytest.fixture
def fenced(monkeypatch: pytest.MonkeyPatch) -> Fenced:
    return Fenced(monkeypatch)


async def late(link: Link, fenced: Fenced) -> None:
    """The request of the connection that was given up arrives after all."""
    await asyncio.wait_for(fenced.done.wait(), DEADLINE_SECONDS)
    await asyncio.wait_for(link.deliver(), DEADLINE_SECONDS)


async def test_a_publish_that_comes_late_changes_nothing(
    mortal: LocalServer, broker: Broker, direct: Broker, link: Link, fenced: Fenced
) -> None:
    link.delay(COMMITS[mortal.name])
    publishing = asyncio.create_task(broker.publish("q", b"once"))
    await late(link, fenced)
    (published,) = await publishing
    assert fenced.decisions == [False]
    assert await bodies(direct) == [b"first of all", b"warm", b"once"]
    assert published.id == (await log_of(direct, "q"))[-1].id.hex()


async def test_a_claim_that_comes_late_holds_nothing(
    mortal: LocalServer, broker: Broker, direct: Broker, link: Link, fenced: Fenced
) -> None:
    link.delay(COMMITS[mortal.name])
    claiming = asyncio.create_task(rest(broker))
    await late(link, fenced)
    (message,) = await claiming
    assert (message.body, message.receives) == (b"warm", 1)
    await message.settle()
    assert not await rest(direct)
    depth = await direct.depth("q")
    assert (depth.ready, depth.in_flight) == (0, 0)


async def test_a_settle_that_comes_late_settles_nobody_elses_message(
    mortal: LocalServer, broker: Broker, direct: Broker, link: Link, fenced: Fenced
) -> None:
    """The first settle is lost on its way; the message is given back, and another broker holds it by then."""
    (message,) = await rest(broker)
    link.delay(COMMITS[mortal.name])
    settling = asyncio.create_task(message.settle())
    await asyncio.wait_for(link.held.wait(), DEADLINE_SECONDS)
    await late(link, fenced)
    await settling
    await broker.publish("q", b"next")
    (other,) = await rest(direct)
    assert other.body == b"next"
    await other.settle()
    assert (await broker.depth("q")).in_flight == 0


# A standby that does not exist


@pytest.mark.parametrize("mortal", ["postgres"], indirect=True)
async def test_a_commit_that_waits_for_nobody_is_dropped_and_never_cancelled(
    mortal: LocalServer, mortal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unchecked(*_: object) -> None:
        """As if the standby had gone away just now."""

    monkeypatch.setattr(connect, "_check_standby", unchecked)
    async with rowlock.open(mortal_url, owner="tester") as broker:
        await broker.create_queue("q", durability="replicated")
        await broker.publish("q", b"before")
        await standbys(mortal, "nobody")
        try:
            publishing = asyncio.create_task(broker.publish("q", b"waits"))
            cycle = cycle_of(broker)
            await until(lambda: cycle.counters.unknown == 1 and cycle.counters.reconnected > 1)
            assert not publishing.done()
            assert waiting_commits(mortal) == 1
        finally:
            await standbys(mortal, "")
        (published,) = await publishing
        log = await log_of(broker, "q")
        assert [(message.body, message.id.hex()) for message in log][1:] == [(b"waits", published.id)]
        await broker.publish("q", b"after")
        assert await bodies(broker) == [b"before", b"waits", b"after"]


@pytest.mark.parametrize("mortal", ["postgres"], indirect=True)
async def test_a_caller_waits_no_longer_than_its_patience_for_an_outcome(
    mortal: LocalServer, mortal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unchecked(*_: object) -> None:
        """As if a standby were streaming, too slow to be of use."""

    monkeypatch.setattr(connect, "_check_standby", unchecked)
    async with rowlock.open(mortal_url, owner="tester", patience=2.0) as broker:
        await broker.create_queue("q", durability="replicated")
        await broker.publish("q", b"before")
        await standbys(mortal, "nobody")
        try:
            with pytest.raises(OutcomeUnknown, match="may have been stored"):
                await asyncio.wait_for(broker.publish("q", b"waits"), DEADLINE_SECONDS)
        finally:
            await standbys(mortal, "")
        await broker.publish("q", b"after")
        assert await bodies(broker) == [b"before", b"waits", b"after"]


async def standbys(server: LocalServer, names: str) -> None:
    server.sql(f"alter system set synchronous_standby_names = '{names}'")
    server.sql("select pg_reload_conf()")
    await until(lambda: server.sql("show synchronous_standby_names").strip() == names)


def waiting_commits(server: LocalServer) -> int:
    return int(server.sql("select count(*) from pg_stat_activity where wait_event = 'SyncRep'"))
