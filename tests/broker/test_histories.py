"""Histories that break a careless broker: the design brief's section 6, one test each, on each database."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psutil import Process

from rowlock import Message
from rowlock.errors import DurabilityUnavailable, NotFound, OutcomeUnknown, StaleReceipt, Unavailable

from .poison import POISON, refusing, run
from .rig import Rig, bodies, clear, cycles, drain, eventually, quiet, stored, sweep, trim

if TYPE_CHECKING:
    from rowlock import Broker


async def test_a_cached_page_that_another_broker_settled_away_brings_nothing_back(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    """Broker A caches a page; B settles all of it, the page is deleted; time passes; A claims."""
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", [b"m"] * 300)
    held = await broker.claim("q", 128)
    await other.settle([one.receipt for one in held])
    await rig.advance(3600)
    assert len(await drain(broker, "q")) == 172
    assert await other.claim("q") == []


async def test_a_clock_that_is_40_seconds_ahead_takes_no_message_from_its_holder(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", [b"1", b"2", b"3"])
    await broker.settle(await broker.claim("q"))
    [held] = await other.claim("q")
    clock = broker._engine.clock
    clock.heard(clock.now() + 40_000)
    assert bodies(await broker.claim("q", 9)) == [b"3"]
    clock.heard(clock.now() + 40_000)
    assert await broker.claim("q", 9) == []
    await held.extend(30)
    await held.settle()


async def test_a_decision_that_waits_for_its_lock_takes_no_message_from_its_holder(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    """A decides that a hold has run out, and waits; B, which was first at the lock, holds the message meanwhile."""
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", [b"1", b"2"])
    await broker.claim("q")
    await rig.advance(31)
    stop = rig.stop(broker, "before commit")
    late = asyncio.create_task(broker.claim("q", 9))
    if broker._engine.store.dialect != "postgresql":
        stop.place = "before lock"
    await stop.wait()
    held = await other.claim("q", 9)
    await rig.advance(5)
    stop.release()
    assert await late == []
    await other.settle(held)


async def test_ten_claimed_messages_are_handed_out_once_and_at_once_though_a_publish_of_the_cycle_is_rejected(
    store_url: str, broker: Broker
) -> None:
    await broker.create_queue("q", max_receives=1, dead_letter="dead")
    await broker.publish("q", [b"%d" % at for at in range(10)])
    async with refusing(store_url):
        rejected, claimed = await asyncio.gather(
            broker.publish("q", POISON), broker.claim("q", 10), return_exceptions=True
        )
    assert isinstance(rejected, Exception)
    assert not isinstance(claimed, BaseException)
    assert bodies(claimed) == [b"%d" % at for at in range(10)]
    assert [one.receives for one in claimed] == [1] * 10
    assert await broker.claim("q") == []
    await broker.settle(claimed)
    assert (await broker.depth("q")).total == 0


async def test_a_queue_is_made_anew_under_its_name_while_another_broker_uses_its_cache(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    await broker.create_queue("q")
    await other.publish("q", [b"old"] * 3)
    held = await other.claim("q", 2)
    await broker.delete_queue("q")
    await broker.create_queue("q")
    with pytest.raises(StaleReceipt):
        await other.settle(held[:1])
    [published] = await other.publish("q", b"new")
    with pytest.raises(StaleReceipt):
        await broker.settle([held[1].receipt])
    assert published.sequence == 1
    [message] = await other.claim("q", 9)
    assert message.body == b"new"
    await clear(broker)
    await message.settle()
    assert await drain(broker, "q") == []


async def test_a_new_subscription_appears_while_retention_decides(rig: Rig, broker: Broker, other: Broker) -> None:
    """Retention knows one subscription, which is done with everything; another appears before it has the locks."""
    await broker.create_topic("t")
    await broker.create_subscription("s1", "t")
    await broker.publish("t", [b"1", b"2", b"3"])
    await drain(broker, "s1")
    stop = rig.stop(broker, "before lock")
    trimming = asyncio.create_task(trim(broker, "t"))
    await stop.wait()
    await other.create_subscription("s2", "t", start="earliest")
    stop.release()
    await trimming
    assert await drain(other, "s2") == [b"1", b"2", b"3"]


async def test_a_seek_meets_a_retention_step(rig: Rig, broker: Broker, other: Broker) -> None:
    """The rows below the first are being deleted when a subscription seeks back: it gets what is there, whole."""
    await broker.create_queue("q")
    await broker.publish("q", [b"%d" % at for at in range(1, 21)])
    held = await broker.claim("q", 20)
    await broker.settle(held[:15])
    stop = rig.stop(broker, "after commit")
    trimming = asyncio.create_task(trim(broker, "q"))
    await stop.wait()
    assert await other.seek("q", "earliest") == {0: 16}
    stop.release()
    await trimming
    assert await stored(broker, "q") == list(range(16, 21))
    assert await drain(other, "q") == [b"%d" % at for at in range(16, 21)]


async def test_the_tail_cache_holds_removed_rows(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", retention=3600)
    await other.claim("q")
    await other.publish("q", [b"1", b"2", b"3"])
    await rig.advance(3601)
    await broker.publish("q", b"4")
    await trim(broker, "q")
    assert await other.seek("q", 1) == {0: 4}
    assert await drain(other, "q") == [b"4"]


@pytest.mark.parametrize("place", ["before commit", "after commit"])
async def test_the_answer_of_a_commit_is_lost_and_the_message_is_published_once(
    rig: Rig, broker: Broker, other: Broker, place: str
) -> None:
    """And in between, the rows are consumed and removed, so that nobody finds them any more."""
    await broker.create_queue("q")
    await broker.publish("q", b"0")
    assert await drain(other, "q") == [b"0"]
    lost = rig.lose(broker, place)
    rig.stage(broker).refuse_connections = True
    publishing = asyncio.create_task(broker.publish("q", [b"1", b"2"]))
    await lost.wait()
    consumed = await drain(other, "q")
    await other.publish("q", b"3")
    consumed += await drain(other, "q")
    await trim(other, "q")
    rig.stage(broker).refuse_connections = False
    published = await publishing
    consumed += await drain(other, "q")
    assert sorted(consumed) == [b"1", b"2", b"3"]
    assert len({one.id for one in published}) == 2
    assert cycles(broker)[0].counters.unknown == 1


@pytest.mark.parametrize("place", ["before commit", "after commit"])
async def test_the_answer_of_a_commit_is_lost_and_what_was_claimed_is_held_by_its_caller(
    rig: Rig, broker: Broker, other: Broker, place: str
) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"1", b"2", b"3"])
    await broker.settle(await broker.claim("q"))
    rig.lose(broker, place)
    claimed = await broker.claim("q", 9)
    assert [(one.body, one.receives) for one in claimed] == [(b"2", 1), (b"3", 1)]
    assert await other.claim("q") == []
    rig.lose(broker, place)
    await broker.settle(claimed)
    await rig.advance(31)
    assert await other.claim("q", 9) == []


async def test_an_outcome_that_cannot_be_found_out_in_time_is_told_as_unknown(rig: Rig) -> None:
    broker = await rig.open(patience=0.2)
    await broker.create_queue("q")
    await broker.publish("q", b"0")
    rig.lose(broker, "after commit")
    rig.stage(broker).refuse_connections = True
    with pytest.raises(OutcomeUnknown, match="may have been stored"):
        await broker.publish("q", b"1")
    with pytest.raises(Unavailable, match="Nothing was stored"):
        await broker.publish("q", b"2")
    rig.stage(broker).refuse_connections = False
    await broker.publish("q", b"3")
    assert await drain(broker, "q") == [b"0", b"1", b"3"]


async def test_one_broker_dead_letters_into_a_queue_while_another_publishes_to_it_and_claims_from_the_source(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    await broker.create_queue("d")
    await broker.create_queue("s", max_receives=1, dead_letter="d", visibility_timeout=0)
    rig.stage(broker).always_lock = rig.stage(other).always_lock = True
    total = 60

    async def bury() -> None:
        for at in range(total):
            await broker.publish("s", b"s%d" % at)
            await broker.claim("s", 3)

    async def cross() -> None:
        for at in range(total):
            await asyncio.gather(other.publish("d", b"d%d" % at), other.claim("s", 1))

    async with asyncio.timeout(40):
        await asyncio.gather(bury(), cross())
    found: list[bytes] = []

    async def all_dead() -> bool:
        await broker.claim("s", 100)
        for one in (broker, other):
            await sweep(one)
        found.extend(await drain(broker, "d"))
        return len(found) >= 2 * total

    await eventually(all_dead)
    assert sorted(found) == sorted([b"s%d" % at for at in range(total)] + [b"d%d" % at for at in range(total)])


async def test_two_publishers_use_the_same_two_deduplication_ids_in_opposite_order(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    for name in ("q", "r"):
        await broker.create_queue(name)

    async def publish(one: Broker, turn: int, *names: str) -> list[bool]:
        batch = [Message(b"m", deduplication_id=f"{name}{turn}") for name in names]
        return [published.duplicate for published in await one.publish("q", batch)]

    async with asyncio.timeout(40):
        for turn in range(20):
            one, two = await asyncio.gather(publish(broker, turn, "x", "y"), publish(other, turn, "y", "x"))
            assert sorted([(one[0], two[1]), (one[1], two[0])]) in (
                [(False, True), (False, True)],
                [(True, False), (True, False)],
                [(False, True), (True, False)],
            )
    assert len(await drain(broker, "q")) == 40


async def test_a_holder_of_two_messages_of_a_key_releases_the_first_and_nobody_gets_it(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    await broker.create_queue("q", order="key", visibility_timeout=30)
    await broker.publish("q", [Message(b"1", key="k"), Message(b"2", key="k")])
    one, two = await broker.claim("q", 2)
    await one.release()
    for _ in range(2):
        assert await other.claim("q", 9) == []
        assert await broker.claim("q", 9) == []
        await rig.advance(10)
    await two.settle()
    assert bodies(await other.claim("q", 9)) == [b"1"]


MANY = 1_000_000

COLUMNS = "(part, seq, id, accepted_at, published_at, expires_at, size, body)"
INSERT = {
    "sqlite": """
        with recursive n(seq) as (select 1 union all select seq + 1 from n where seq < {count})
        insert into lane0_messages {columns} select {part}, seq, zeroblob(16), {now}, {now}, {now}, 1, x'41' from n
    """,
    "postgresql": """
        insert into rowlock_lane_0.messages {columns}
        select {part}, seq, decode(md5(seq::text), 'hex'), {now}, {now}, {now}, 1, 'A'
        from generate_series(1, {count}) seq
    """,
    "mariadb": """
        INSERT INTO rowlock_lane0_messages {columns}
        SELECT {part}, seq, UNHEX(MD5(seq)), {now}, {now}, {now}, 1, 'A' FROM seq_1_to_{count}
    """,
}


@pytest.mark.slow
async def test_a_million_expired_messages_lie_at_the_frontier(
    store_url: str, rig: Rig, broker: Broker, other: Broker
) -> None:
    """The next claim answers quickly and finds the live one behind them; another broker's finds nothing after it."""
    await broker.create_queue("q")
    dialect = broker._engine.store.dialect
    part = (await broker._engine.catalog.topic("q")).partitions[0].part
    now = await broker._engine.store.control.clock()
    await run(store_url, INSERT[dialect].format(part=part, now=now, count=MANY, columns=COLUMNS))
    await broker.publish("q", b"live")
    started = time.monotonic()
    assert bodies(await other.claim("q")) == [b"live"]
    assert time.monotonic() - started < 5
    assert await broker.claim("q") == []
    assert (await broker.depth("q")).total == 1


async def test_a_load_balancer_gives_up_on_five_long_polls_and_no_message_is_dead_lettered_unseen(
    rig: Rig, broker: Broker
) -> None:
    await broker.create_queue("q", max_receives=3, dead_letter="dead")
    await broker.publish("q", b"m")
    for _ in range(5):
        await eventually(lambda: is_ready(broker))
        stop = rig.stop(broker, "before commit")
        poll = asyncio.create_task(broker.claim("q", wait=20))
        await stop.wait()
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        stop.release()
    await eventually(lambda: is_ready(broker))
    await rig.advance(3600)
    await sweep(broker)
    [message] = await broker.claim("q", wait=5)
    assert message.receives == 1
    assert (await broker.depth("dead")).total == 0


async def is_ready(broker: Broker) -> bool:
    await quiet(broker)
    return (await broker.depth("q")).ready == 1


# Processes and servers of their own


@pytest.mark.slow
async def test_a_broker_is_stopped_between_lock_and_commit_and_the_others_go_on(store_url: str, broker: Broker) -> None:
    """Within 5 seconds; continued, it finds out that its transaction is gone, and publishes once."""
    if store_url.startswith("sqlite"):
        pytest.skip("SQLite has no server that could end the session of a stopped process")
    await broker.create_queue("q")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.broker.stopping_process", store_url, "q",
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    try:
        await eventually(lambda: is_stopped(process.pid))
        started = time.monotonic()
        await broker.publish("q", b"meanwhile")
        assert time.monotonic() - started < 8
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        assert (await asyncio.wait_for(process.stdout.readline(), 20)).startswith(b"published")
        assert await drain(broker, "q") == [b"first", b"meanwhile", b"stopped"]
    finally:
        process.kill()
        await process.wait()


async def is_stopped(pid: int) -> bool:
    return Process(pid).status() == "stopped"


NOBODY = {"synchronous_standby_names": "nobody", "synchronous_commit": "local"}
"""A standby that never comes; the second is for those that do not say what they want, such as the test's own tools."""


async def test_the_synchronous_standby_is_gone_and_local_topics_go_on(postgres_server: object) -> None:
    """`synchronous_standby_names` names nobody who is there: replicated topics are refused, local ones go on."""
    from rowlock.localservers import LocalPostgres

    with LocalPostgres(settings=NOBODY) as server:
        rig = Rig(server.create_database())
        try:
            broker = await rig.open(patience=0.5)
            await broker.create_queue("local")
            await broker.create_queue("relaxed", durability="relaxed")
            with pytest.raises(DurabilityUnavailable, match="nobody"):
                await broker.create_queue("replicated", durability="replicated")
            with pytest.raises(NotFound):
                await broker.publish("replicated", b"m")
            async with asyncio.timeout(10):
                for name in ("local", "relaxed"):
                    await broker.publish(name, b"m")
                    assert await drain(broker, name) == [b"m"]
        finally:
            await rig.close()


async def test_a_replicated_topic_refuses_while_its_standby_is_gone_and_local_ones_go_on(
    postgres_server: object,
) -> None:
    """It was there when the topic was created, and is gone when the broker connects again."""
    from rowlock.localservers import LocalPostgres
    from rowlock.store.faults import NotReplicated
    from rowlock.store.port import Durability

    with LocalPostgres(settings=NOBODY) as server:
        rig = Rig(server.create_database())
        try:
            broker = await rig.open(patience=0.5)
            await broker.create_queue("local")
            store = broker._engine.store
            lane = store.lane
            standby = True

            async def with_a_standby(number: int, durability: Durability) -> object:
                if durability is not Durability.REPLICATED:
                    return await lane(number, durability)
                if not standby:
                    raise NotReplicated("no synchronous standby is streaming")
                return await lane(number, Durability.LOCAL)

            store.lane = with_a_standby  # type: ignore[method-assign, assignment]
            await broker.create_queue("replicated", durability="replicated")
            await broker.publish("replicated", b"1")
            standby = False
            rig.lose(broker, "before commit")
            refused, stored_ = await asyncio.gather(
                broker.publish("replicated", b"2"), broker.publish("local", b"3"), return_exceptions=True
            )
            assert isinstance(refused, DurabilityUnavailable | OutcomeUnknown)
            assert not isinstance(stored_, BaseException)
            assert await drain(broker, "local") == [b"3"]
            standby = True
            assert b"1" in await drain(broker, "replicated")
        finally:
            await rig.close()
