"""Redrive: back, or elsewhere; with a rate, a count, an end; and carried on by another broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from rowlock import Message, Redrive
from rowlock.errors import InUse, InvalidArgument, NotFound

from .conftest import three_lanes
from .rig import bodies, drain, eventually, sweep

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


async def bury(rig: Rig, broker: Broker, count: int, name: str = "q", **settings: object) -> None:
    """So many messages in the queue `dead`."""
    await broker.create_queue(name, max_receives=1, dead_letter="dead", visibility_timeout=30, **settings)
    await broker.publish(name, [Message(b"%d" % at, key=f"k{at % 7}") for at in range(count)])
    while await broker.claim(name, 1000):
        pass
    await rig.advance(31)
    await sweep(broker)
    await eventually(lambda: is_empty(broker, name))


async def is_empty(broker: Broker, name: str) -> bool:
    return (await broker.depth(name)).total == 0


async def ended(broker: Broker, task: Redrive) -> Redrive:
    async def find() -> bool:
        return (await told(broker, task)).state != "running"

    await eventually(find)
    return await told(broker, task)


async def told(broker: Broker, task: Redrive) -> Redrive:
    return next(one for one in await broker.redrives() if one.id == task.id)


@three_lanes
async def test_messages_go_back_to_where_they_came_from(rig: Rig, broker: Broker) -> None:
    await bury(rig, broker, 30, partitions=3)
    task = await ended(broker, await broker.redrive("dead"))
    assert (task.state, task.moved, task.to_move, task.problem) == ("completed", 30, 30, None)
    assert sorted(await drain(broker, "q"), key=int) == [b"%d" % at for at in range(30)]
    assert await broker.claim("dead") == []


async def test_a_redriven_message_is_as_new_with_its_id_and_key(rig: Rig, broker: Broker) -> None:
    await bury(rig, broker, 1)
    [dead] = await broker.claim("dead")
    await dead.release()
    await ended(broker, await broker.redrive("dead"))
    [message] = await broker.claim("q")
    assert (message.id, message.key, message.receives, message.origin) == (dead.id, dead.key, 1, None)


async def test_messages_go_to_another_queue_where_one_is_named(rig: Rig, broker: Broker) -> None:
    await bury(rig, broker, 10)
    await broker.create_queue("elsewhere")
    task = await ended(broker, await broker.redrive("dead", "elsewhere"))
    assert (task.state, task.destination) == ("completed", "elsewhere")
    assert await drain(broker, "elsewhere") == [b"%d" % at for at in range(10)]


async def test_any_queue_can_be_redriven_into_another(broker: Broker) -> None:
    await broker.create_queue("from")
    await broker.create_queue("to")
    await broker.publish("from", [b"1", b"2"])
    await ended(broker, await broker.redrive("from", "to"))
    assert await drain(broker, "to") == [b"1", b"2"]


async def test_a_rate_is_kept(rig: Rig, broker: Broker) -> None:
    await bury(rig, broker, 60)
    started = time.monotonic()
    task = await ended(broker, await broker.redrive("dead", rate=100))
    assert task.rate == 100
    assert time.monotonic() - started > 0.45


async def test_a_redrive_is_cancelled_and_what_it_moved_stays_moved(rig: Rig, broker: Broker, other: Broker) -> None:
    await bury(rig, broker, 50)
    task = await broker.redrive("dead", rate=20)

    async def moved() -> int:
        return (await told(other, task)).moved

    await eventually(moved)
    cancelled = await other.cancel_redrive(task.id)
    assert cancelled.state == "cancelled"
    back, left = await drain(broker, "q"), await drain(broker, "dead")
    assert 0 < len(back) < 50
    assert sorted(back + left, key=int) == [b"%d" % at for at in range(50)]
    with pytest.raises(InvalidArgument, match="cancelled"):
        await broker.cancel_redrive(task.id)


async def test_another_broker_carries_on_after_a_kill(rig: Rig, broker: Broker, other: Broker) -> None:
    await bury(rig, broker, 40)
    task = await broker.redrive("dead", rate=50)

    async def moved() -> int:
        return (await told(other, task)).moved

    await eventually(moved)
    await rig.crash(broker)
    await end_leases(other)
    other._redriving._wake.set()
    done = await ended(other, task)
    assert (done.state, done.moved) == ("completed", 40)
    assert sorted(await drain(other, "q"), key=int) == [b"%d" % at for at in range(40)]


async def end_leases(broker: Broker) -> None:
    """As if a dead broker's leases had run out."""
    background = broker._redriving
    control = broker._engine.store.control
    lease = control.lease

    async def free(duty: str, holder: int, milliseconds: int) -> bool:
        return True if holder == background._holder else await lease(duty, holder, milliseconds)

    control.lease = free  # type: ignore[method-assign]


async def test_what_does_not_say_where_it_came_from_ends_the_redrive_with_the_reason(broker: Broker) -> None:
    await broker.create_queue("plain")
    await broker.publish("plain", b"m")
    task = await ended(broker, await broker.redrive("plain"))
    assert task.state == "failed"
    assert task.problem is not None
    assert "name a destination" in task.problem
    assert await drain(broker, "plain") == [b"m"]


async def test_a_redrive_whose_destination_is_deleted_ends_with_the_reason(broker: Broker) -> None:
    await broker.create_queue("from")
    await broker.create_queue("to")
    await broker.publish("from", [b"%d" % at for at in range(20)])
    task = await broker.redrive("from", "to", rate=10)
    await broker.delete_queue("to")
    done = await ended(broker, task)
    assert (done.state, "'to'" in (done.problem or "")) == ("failed", True)


async def test_only_one_redrive_of_a_queue_at_a_time(broker: Broker) -> None:
    await broker.create_queue("from")
    await broker.create_queue("to")
    await broker.publish("from", [b"m"] * 20)
    task = await broker.redrive("from", "to", rate=10)
    with pytest.raises(InUse, match=str(task.id)):
        await broker.redrive("from", "to")
    await broker.cancel_redrive(task.id)


async def test_a_slow_redrive_holds_up_no_other(broker: Broker) -> None:
    for name in ("slow", "quick", "to"):
        await broker.create_queue(name)
        await broker.publish(name, [b"m"] * 20)
    slow = await broker.redrive("slow", "to", rate=1)
    quick = await ended(broker, await broker.redrive("quick", "to"))
    assert quick.moved == 20
    assert (await broker.cancel_redrive(slow.id)).moved < 20


async def test_held_messages_are_not_redriven_under_their_holder(rig: Rig, broker: Broker) -> None:
    await bury(rig, broker, 3)
    [held] = await broker.claim("dead")
    await ended(broker, await broker.redrive("dead"))
    await held.settle()
    assert len(await drain(broker, "q")) == 2


async def test_redriving_what_does_not_exist_is_refused(broker: Broker) -> None:
    await broker.create_queue("q")
    with pytest.raises(NotFound, match="'nowhere'"):
        await broker.redrive("nowhere")
    with pytest.raises(NotFound, match="'nowhere'"):
        await broker.redrive("q", "nowhere")
    with pytest.raises(InvalidArgument, match="itself"):
        await broker.redrive("q", "q")
    with pytest.raises(NotFound, match="999"):
        await broker.cancel_redrive(999)


async def test_a_redrive_of_messages_larger_than_the_destination_allows_says_so(broker: Broker) -> None:
    await broker.create_queue("large", max_message_bytes=10_000)
    await broker.create_queue("small", max_message_bytes=100)
    await broker.publish("large", b"x" * 5000)
    task = await ended(broker, await broker.redrive("large", "small"))
    assert task.state == "failed"
    assert bodies(await broker.claim("small")) == []
    assert await drain(broker, "large") == [b"x" * 5000]


async def test_a_task_that_ended_is_forgotten_after_two_weeks(rig: Rig) -> None:
    broker = await rig.open()
    background = broker._engine._background
    assert background is not None
    await broker.create_queue("source")
    await broker.create_queue("q")
    await broker.publish("source", b"m")
    task = await broker.redrive("source", "q")
    await eventually(lambda: is_completed(broker))
    await background.clear()
    assert [one.id for one in await broker.redrives()] == [task.id]
    await rig.advance(15 * 24 * 3600)
    await background.clear()
    assert await broker.redrives() == []


async def is_completed(broker: Broker) -> bool:
    return all(one.state == "completed" for one in await broker.redrives())
