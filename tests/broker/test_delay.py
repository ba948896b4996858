"""Delay: a message is held back until it is due."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from rowlock import Message, limits
from rowlock.errors import PublishRefused

from .conftest import three_lanes
from .rig import bodies, cycles, drain, quiet, sweep

if TYPE_CHECKING:
    from rowlock import Broker
    from rowlock.store.port import Scheduled

    from .rig import Rig


async def now(broker: Broker) -> datetime:
    return datetime.fromtimestamp(await broker._engine.store.control.clock() / 1000, UTC)


async def test_a_delayed_message_comes_when_it_is_due(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    [published] = await broker.publish("q", Message(b"later", delay=60, key="k", attributes={"a": 1}))
    assert published.sequence is None
    await broker.publish("q", b"now")
    assert await drain(other, "q") == [b"now"]
    await rig.advance(59)
    assert await other.claim("q", 9) == []
    await rig.advance(1.1)
    [message] = await other.claim("q", 9, wait=5)
    assert (message.id, message.body, message.key, message.attributes) == (published.id, b"later", "k", {"a": 1})


async def test_a_due_time_may_be_given_instead(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    due = await now(broker) + timedelta(hours=2)
    await broker.publish("q", Message(b"m", due_at=due))
    await rig.advance(7190)
    assert await broker.claim("q") == []
    await rig.advance(11)
    assert bodies(await broker.claim("q", wait=5)) == [b"m"]


async def test_a_due_time_in_the_past_is_now(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", due_at=await now(broker) - timedelta(days=1)))
    assert bodies(await broker.claim("q")) == [b"m"]


async def test_a_year_is_allowed_and_more_is_refused(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", delay=366 * 24 * 3600))
    with pytest.raises(PublishRefused, match="31622400"):
        await broker.publish("q", Message(b"m", delay=366 * 24 * 3600 + 1))
    with pytest.raises(PublishRefused, match="31622400"):
        await broker.publish("q", Message(b"m", due_at=await now(broker) + timedelta(days=367)))
    with pytest.raises(PublishRefused, match="not both"):
        await broker.publish("q", Message(b"m", delay=1, due_at=await now(broker)))


async def test_a_queues_own_delay_holds_for_messages_that_say_nothing(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", delay=30)
    await broker.publish("q", [b"default", Message(b"at once", delay=0)])
    assert await drain(broker, "q") == [b"at once"]
    await rig.advance(31)
    assert bodies(await broker.claim("q", 9, wait=5)) == [b"default"]


async def test_delayed_messages_come_in_the_order_of_their_due_times(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"%d" % seconds, delay=seconds) for seconds in (30, 10, 20)])
    await rig.advance(31)
    await sweep(broker)
    assert await drain(broker, "q") == [b"10", b"20", b"30"]


async def test_in_an_ordered_queue_a_delayed_message_holds_its_key_back(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", order="key")
    await broker.publish("q", [Message(b"1", key="k", delay=30), Message(b"2", key="k"), Message(b"3", key="other")])
    assert await drain(broker, "q") == [b"3"]
    await rig.advance(31)
    assert bodies(await broker.claim("q", 9)) == [b"1", b"2"]


async def test_an_ordered_delayed_message_is_delivered_to_one_who_waits(rig: Rig, broker: Broker) -> None:
    import asyncio

    await broker.create_queue("q", order="key")
    await broker.publish("q", Message(b"1", key="k", delay=30))
    waiting = asyncio.create_task(broker.claim("q", wait=15))
    await asyncio.sleep(0)
    await rig.advance(31)
    assert bodies(await waiting) == [b"1"]


async def test_a_delay_survives_the_broker_that_took_it(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", delay=60))
    await rig.crash(broker)
    after = await rig.open()
    await rig.advance(61)
    await sweep(after)
    assert bodies(await after.claim("q")) == [b"m"]


@three_lanes
async def test_delayed_messages_of_all_partitions_come(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", partitions=5)
    await broker.publish("q", [Message(b"%d" % at, key=f"k{at}", delay=30) for at in range(40)])
    assert (await other.depth("q")).delayed == 40
    await rig.advance(31)
    await sweep(other)
    assert sorted(await drain(other, "q"), key=int) == [b"%d" % at for at in range(40)]


async def test_more_due_messages_than_one_step(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"m", delay=30)] * 1100)
    await rig.advance(31)
    await sweep(broker)
    await quiet(broker)
    assert len(await drain(broker, "q")) == 1100


async def test_two_brokers_that_move_what_is_due_move_it_once(rig: Rig, broker: Broker, other: Broker) -> None:
    import asyncio

    await broker.create_queue("q")
    await broker.publish("q", [Message(b"%d" % at, delay=30) for at in range(50)])
    await rig.advance(31)
    await asyncio.gather(sweep(broker), sweep(other))
    assert sorted(await drain(broker, "q"), key=int) == [b"%d" % at for at in range(50)]


async def test_delayed_messages_of_several_callers_share_a_cycle(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.create_queue("q")
    await asyncio.gather(*(broker.publish("q", Message(b"later", delay=100)) for _ in range(8)))
    assert (await broker.depth("q")).delayed == 8
    assert not caplog.records


async def test_what_is_due_moves_in_steps_of_bounded_bytes(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", max_message_bytes=limits.MESSAGE_MAX_BYTES)
    await broker.publish("q", [Message(b"x" * limits.MESSAGE_MAX_BYTES, delay=60)] * 10)
    [cycle] = cycles(broker)
    assert cycle._lane is not None
    lane = cycle._lane.real  # type: ignore[attr-defined]
    read, sizes = lane.due, []

    async def due(part: int, before: int, limit: int) -> list[Scheduled]:
        found: list[Scheduled] = await read(part, before, limit)
        sizes.append(sum(row.size for row in found))
        return found

    lane.due = due
    await rig.advance(61)
    await sweep(broker)
    assert (await broker.depth("q")).ready == 10
    assert max(sizes) <= limits.CYCLE_BYTES
