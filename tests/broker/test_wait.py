"""Waiting: a claim that finds nothing waits, costs the database nothing, and is woken at once."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rowlock import Message, limits
from rowlock.errors import InvalidArgument, TooManyWaiters

from .conftest import three_lanes
from .rig import bodies, cycles, eventually, quiet

if TYPE_CHECKING:
    from rowlock import Broker, ClaimedMessage
    from rowlock.store.port import Cursor, Position

    from .rig import Rig

WAKE_SECONDS = {"postgresql": 0.150, "mysql": 0.300, "sqlite": 0.300}
ROUNDS = 20
TRIES = 4
"""A measure of time on a machine that does other things: the best of these counts."""


async def waiting(
    broker: Broker, name: str, count: int = 1, seconds: float = 20
) -> list[asyncio.Task[list[ClaimedMessage]]]:
    """Claims that have looked, found nothing, and wait."""
    tasks = [asyncio.create_task(broker.claim(name, wait=seconds)) for _ in range(count)]
    waiters = broker._delivery.waiters

    async def parked() -> bool:
        return waiters.count >= count and not any(one.trying for each in waiters._by_sub.values() for one in each)

    await eventually(parked)
    return tasks


async def test_a_waiter_gets_what_is_published_in_its_own_process(broker: Broker) -> None:
    await broker.create_queue("q")
    [task] = await waiting(broker, "q")
    await broker.publish("q", b"m")
    assert bodies(await asyncio.wait_for(task, 5)) == [b"m"]


async def test_it_is_handed_out_in_the_cycle_that_appends_it(broker: Broker) -> None:
    await broker.create_queue("q")
    [task] = await waiting(broker, "q")
    [cycle] = cycles(broker)
    before = cycle.counters.cycles
    await broker.publish("q", b"m")
    await task
    assert cycle.counters.cycles == before + 1


async def test_several_waiters_get_a_message_each(broker: Broker) -> None:
    await broker.create_queue("q")
    tasks = await waiting(broker, "q", 5)
    await broker.publish("q", [b"%d" % at for at in range(5)])
    claims = await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert sorted(bodies([one for claimed in claims for one in claimed])) == [b"%d" % at for at in range(5)]


async def test_the_longest_waiting_comes_first(broker: Broker) -> None:
    await broker.create_queue("q")
    [first] = await waiting(broker, "q")
    second = asyncio.create_task(broker.claim("q", wait=20))
    await asyncio.sleep(0)
    await broker.publish("q", b"m")
    assert bodies(await asyncio.wait_for(first, 5)) == [b"m"]
    await broker.publish("q", b"n")
    assert bodies(await asyncio.wait_for(second, 5)) == [b"n"]


async def test_nothing_comes_back_when_nothing_came(broker: Broker) -> None:
    await broker.create_queue("q")
    started = time.monotonic()
    assert await broker.claim("q", wait=0.1) == []
    assert 0.09 < time.monotonic() - started < 5


async def test_a_waiter_gets_what_another_broker_publishes(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    [task] = await waiting(other, "q")
    await broker.publish("q", b"m")
    assert bodies(await asyncio.wait_for(task, 5)) == [b"m"]


async def test_another_process_is_woken_within_its_bound(store_url: str, broker: Broker) -> None:
    await broker.create_queue("q")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("waiting_process.py")),
        store_url,
        "q",
        str(ROUNDS * TRIES),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    bound = WAKE_SECONDS[store_url.partition(":")[0]]
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        for _ in range(TRIES):
            if (worst := await p95(broker, process.stdout)) <= bound:
                return
        pytest.fail(f"woken after {worst:.3f} s at p95")
    finally:
        process.kill()
        await process.wait()


async def p95(broker: Broker, received: asyncio.StreamReader) -> float:
    latencies = []
    for _ in range(ROUNDS):
        started = time.time()
        await broker.publish("q", b"m")
        latencies.append(float(await asyncio.wait_for(received.readline(), 20)) - started)
    return sorted(latencies)[int(ROUNDS * 0.95) - 1]


async def test_waiters_do_not_poll_the_database_each_for_itself(rig: Rig, broker: Broker) -> None:
    names = [f"q{number}" for number in range(10)]
    for name in names:
        await broker.create_queue(name)
    tasks = [asyncio.create_task(broker.claim(name, wait=20)) for name in names for _ in range(20)]
    await eventually(lambda: idle(broker, 200))
    before = rig.statements
    await asyncio.sleep(1)
    assert rig.statements - before <= 8
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def idle(broker: Broker, count: int) -> bool:
    waiters = broker._delivery.waiters
    return waiters.count == count and not any(one.trying for each in waiters._by_sub.values() for one in each)


async def test_a_waiter_gets_a_message_whose_holder_let_its_time_run_out(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", b"m")
    await broker.claim("q")
    [task] = await waiting(broker, "q")
    await rig.advance(31)
    assert bodies(await asyncio.wait_for(task, 5)) == [b"m"]


async def test_also_one_that_a_broker_held_which_is_gone(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", b"m")
    await broker.claim("q")
    await rig.crash(broker)
    [task] = await waiting(other, "q")
    await rig.advance(31)
    [message] = await asyncio.wait_for(task, 5)
    assert message.receives == 2


async def test_a_release_wakes_a_waiter_here_and_elsewhere(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"m")
    for waiter in (broker, other):
        [message] = await broker.claim("q")
        [task] = await waiting(waiter, "q")
        await message.release()
        found = await asyncio.wait_for(task, 5)
        assert bodies(found) == [b"m"]
        await waiter.release(found)


async def test_a_settle_wakes_a_waiter_for_the_next_of_the_key(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", order="key")
    await broker.publish("q", [Message(b"1", key="k"), Message(b"2", key="k"), Message(b"3", key="k")])
    for waiter, expected in ((broker, b"2"), (other, b"3")):
        [message] = await broker.claim("q")
        [task] = await waiting(waiter, "q")
        await message.settle()
        found = await asyncio.wait_for(task, 5)
        assert bodies(found) == [expected]
        await waiter.release(found)


async def test_a_delayed_message_wakes_a_waiter_when_it_is_due(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", delay=60))
    [task] = await waiting(broker, "q")
    await rig.advance(61)
    assert bodies(await asyncio.wait_for(task, 5)) == [b"m"]


async def test_a_seek_back_wakes_a_waiter(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", retention=3600)
    await broker.publish("q", b"m")
    await broker.settle(await broker.claim("q"))
    [task] = await waiting(other, "q")
    await broker.seek("q", "earliest")
    assert bodies(await asyncio.wait_for(task, 5)) == [b"m"]


@three_lanes
async def test_a_waiter_hears_of_every_partition(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", partitions=5)
    for at in range(8):
        waiter, publisher = (broker, other) if at % 2 else (other, broker)
        [task] = await waiting(waiter, "q")
        await publisher.publish("q", Message(b"%d" % at, key=f"k{at}"))
        messages = await asyncio.wait_for(task, 5)
        assert bodies(messages) == [b"%d" % at]
        await waiter.settle(messages)


async def test_a_cancelled_waiter_takes_nothing(broker: Broker) -> None:
    await broker.create_queue("q")
    [task] = await waiting(broker, "q")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await broker.publish("q", b"m")
    [message] = await broker.claim("q")
    assert message.receives == 1
    assert broker._delivery.waiters.count == 0


@pytest.mark.parametrize("wait", [0, 10])
async def test_a_caller_that_leaves_while_its_claim_commits_gives_back_with_the_count_unchanged(
    rig: Rig, broker: Broker, wait: float
) -> None:
    await broker.create_queue("q", max_receives=1, dead_letter="dead")
    await broker.publish("q", [b"1", b"2"])
    stop = rig.stop(broker, "before commit")
    task = asyncio.create_task(broker.claim("q", 2, wait=wait))
    await stop.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    stop.release()
    messages = await broker.claim("q", 2, wait=5)
    assert [(one.body, one.receives) for one in messages] == [(b"1", 1), (b"2", 1)]
    await quiet(broker)
    assert (await broker.depth("dead")).total == 0


async def test_a_wait_that_ends_while_its_claim_commits_gives_back_too(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"m")
    stop = rig.stop(broker, "after lock")
    task = asyncio.create_task(broker.claim("q", wait=0.05))
    await stop.wait()
    assert await task == []
    stop.release()
    [message] = await other.claim("q", wait=5)
    assert message.receives == 1


async def test_as_many_may_wait_as_the_limit_says(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITERS_PER_PROCESS_COUNT", 3)
    await broker.create_queue("q")
    tasks = await waiting(broker, "q", 3)
    with pytest.raises(TooManyWaiters, match="3"):
        await broker.claim("q", wait=1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_twenty_seconds_are_the_longest_wait(broker: Broker) -> None:
    await broker.create_queue("q")
    with pytest.raises(InvalidArgument, match="20"):
        await broker.claim("q", wait=20.1)


async def test_a_broker_that_closes_lets_its_waiters_go(rig: Rig, broker: Broker) -> None:
    other = await rig.open()
    await broker.create_queue("q")
    [task] = await waiting(other, "q", seconds=1)
    rig.brokers.remove(other)
    await other.close()
    [result] = await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 5)
    assert isinstance(result, Exception) or result == []
    await broker.publish("q", b"m")
    assert len(await broker.claim("q")) == 1


async def test_a_waiting_claim_after_an_alter_does_not_disturb_a_cycle_that_looks(
    broker: Broker, other: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cycle remembers is of the version before; a claim made from the newer one must not take it away."""
    await broker.create_queue("q")
    assert await broker.claim("q") == []
    [cycle] = cycles(broker)
    assert cycle._lane is not None
    lane = cycle._lane.real  # type: ignore[attr-defined]
    ask = lane.positions
    reached, released = asyncio.Event(), asyncio.Event()

    async def positions(cursors: list[Cursor]) -> list[Position]:
        reached.set()
        await released.wait()
        found: list[Position] = await ask(cursors)
        return found

    monkeypatch.setattr(lane, "positions", positions)
    looking = [asyncio.create_task(broker.claim("q")) for _ in range(2)]
    await asyncio.wait_for(reached.wait(), 5)
    await other.alter_queue("q", visibility_timeout=77)
    broker._engine.catalog.forget("q")
    waiter = asyncio.create_task(broker.claim("q", wait=0.3))

    async def came() -> bool:
        return bool(cycle._inbox or broker._delivery.waiters.count)

    await eventually(came)
    released.set()
    assert await asyncio.gather(*looking, waiter) == [[], [], []]


async def test_a_waiter_gets_what_runs_out_after_its_process_forgot_all(rig: Rig, broker: Broker) -> None:
    """With the connection, all that was remembered is lost: also when the hold that it waits for runs out."""
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", b"m")
    assert len(await broker.claim("q")) == 1
    [task] = await waiting(broker, "q")
    [cycle] = cycles(broker)
    await cycle._lose()
    await rig.advance(31)
    assert bodies(await asyncio.wait_for(task, 5)) == [b"m"]
