"""The database goes away and comes back in the middle of publish, claim and settle, under the load of many callers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

import rowlock
import rowlock.store.mariadb.control
import rowlock.store.postgres.control
from rowlock.errors import OutcomeUnknown, Unavailable

from .load import Load, log_of, until

if TYPE_CHECKING:
    from rowlock.localservers import LocalServer

Fault = Callable[["LocalServer", Load], Awaitable[None]]

pytestmark = pytest.mark.slow

PAUSE_SECONDS = 2.0
ENDED_CONNECTIONS_ROUNDS = 8

END_CONNECTIONS = {
    "postgres": "select pg_terminate_backend(pid) from pg_stat_activity "
    "where application_name = 'rowlock' and random() < 0.7",
    "mariadb": """
        begin not atomic
            declare continue handler for 1094 begin end;
            for one in (select id from information_schema.processlist where db like 'rowlock\\_%' and rand() < 0.7) do
                execute immediate concat('kill ', one.id);
            end for;
        end""",
}


async def killed(server: LocalServer, load: Load) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def paused(server: LocalServer, load: Load) -> None:
    server.pause()
    await asyncio.sleep(PAUSE_SECONDS)
    server.resume()


async def connections_ended(server: LocalServer, load: Load) -> None:
    for _ in range(ENDED_CONNECTIONS_ROUNDS):
        await asyncio.to_thread(server.sql, END_CONNECTIONS[server.name])
        await load.progresses(10)


@pytest.mark.parametrize("fault", [killed, paused, connections_ended])
async def test_callers_wait_and_nothing_is_lost_or_doubled(mortal: LocalServer, mortal_url: str, fault: Fault) -> None:
    async with rowlock.open(mortal_url, owner="tester") as broker:
        load = await Load.begin(broker)
        try:
            await load.progresses()
            await fault(mortal, load)
            await load.progresses()
            await load.finish()
        finally:
            await load.close()
        await load.check()
        assert not load.refused
        assert not load.unknown
        assert (await broker.depth("load")).in_flight == 0


@pytest.mark.soak
async def test_killed_again_and_again(mortal: LocalServer, mortal_url: str) -> None:
    async with rowlock.open(mortal_url, owner="tester") as broker:
        load = await Load.begin(broker)
        try:
            for _ in range(3):
                await load.progresses(20)
                await killed(mortal, load)
            await load.progresses()
            await load.finish()
        finally:
            await load.close()
        await load.check()


async def test_patience_ends_with_an_error_that_says_what_was_stored(
    mortal: LocalServer, mortal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for control in (rowlock.store.postgres.control, rowlock.store.mariadb.control):
        monkeypatch.setattr(control, "PATIENCE_SECONDS", 1.0)
    async with rowlock.open(mortal_url, owner="tester", patience=1.0) as broker:
        await broker.create_queue("q")
        await broker.publish("q", b"before")
        mortal.kill()
        with pytest.raises((Unavailable, OutcomeUnknown)):  # it may have been sent before the end was noticed
            await broker.publish("q", b"sent into the void")
        began = time.monotonic()
        calls = [broker.publish("q", b"lost"), broker.claim("q"), broker.claim("q", wait=20)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        assert all("Nothing was stored" in str(outcome) for outcome in outcomes)
        assert 0.9 < time.monotonic() - began < 8
        await asyncio.to_thread(mortal.start)
        await broker.publish("q", b"after")
        assert [message.body for message in await log_of(broker, "q")] == [b"before", b"after"]


async def test_a_waiting_claim_outlives_a_restart(mortal: LocalServer, mortal_url: str) -> None:
    async with rowlock.open(mortal_url, owner="tester") as broker, rowlock.open(mortal_url, owner="tester") as other:
        await broker.create_queue("q")
        waiting = asyncio.create_task(broker.claim("q", wait=20))
        await until(lambda: broker._delivery.waiters.count == 1)
        await asyncio.to_thread(mortal.kill)
        await asyncio.to_thread(mortal.start)
        assert not waiting.done()
        await other.publish("q", b"after")
        assert [message.body for message in await waiting] == [b"after"]


async def test_looking_around_goes_on_after_a_restart(mortal: LocalServer, mortal_url: str) -> None:
    async with rowlock.open(mortal_url, owner="tester") as broker:
        await broker.create_queue("q")
        await broker.publish("q", b"one")
        assert (await broker.depth("q")).ready == 1
        for look in (broker.depth, broker.show_queue, broker.show_topic):
            await asyncio.to_thread(mortal.kill)
            await asyncio.to_thread(mortal.start)
            await look("q")
