"""Seek, purge, delete: starting again from elsewhere, and forgetting."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.errors import InvalidArgument, NotFound, StaleReceipt

from .conftest import three_lanes
from .rig import bodies, clear, drain, eventually, quiet, trim

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


@pytest.fixture
async def queue(broker: Broker) -> str:
    await broker.create_queue("q", retention=24 * 3600)
    await broker.publish("q", [b"%d" % at for at in range(1, 7)])
    return "q"


async def test_seeking_to_the_earliest_hands_everything_out_again(broker: Broker, other: Broker, queue: str) -> None:
    await drain(broker, queue)
    assert await other.seek(queue, "earliest") == {0: 1}
    assert await drain(broker, queue) == [b"1", b"2", b"3", b"4", b"5", b"6"]


async def test_seeking_to_the_latest_skips_everything(broker: Broker, other: Broker, queue: str) -> None:
    assert await broker.seek(queue, "latest") == {0: 7}
    assert await other.claim(queue) == []
    await broker.publish(queue, b"7")
    assert await drain(other, queue) == [b"7"]


async def test_seeking_to_a_sequence(broker: Broker, queue: str) -> None:
    await drain(broker, queue)
    assert await broker.seek(queue, 4) == {0: 4}
    assert await drain(broker, queue) == [b"4", b"5", b"6"]


async def test_seeking_past_the_end_stops_at_the_end(broker: Broker, queue: str) -> None:
    assert await broker.seek(queue, 1000) == {0: 7}


async def test_seeking_to_a_time(rig: Rig, broker: Broker, queue: str) -> None:
    await rig.advance(60)
    time = datetime.fromtimestamp(await broker._engine.store.control.clock() / 1000, UTC)
    await rig.advance(60)
    await broker.publish(queue, [b"7", b"8"])
    await drain(broker, queue)
    assert await broker.seek(queue, time) == {0: 7}
    assert await drain(broker, queue) == [b"7", b"8"]


async def test_a_seek_drops_every_hold_and_voids_every_receipt(broker: Broker, other: Broker, queue: str) -> None:
    held = await broker.claim(queue, 2)
    await other.seek(queue, "earliest")
    again = await other.claim(queue, 2)
    assert [one.receives for one in again] == [1, 1]
    with pytest.raises(StaleReceipt, match="2 of 2"):
        await broker.settle(held)
    await other.settle(again)


async def test_a_seek_back_stops_at_what_retention_left(broker: Broker) -> None:
    await broker.create_queue("u")
    await broker.publish("u", [b"%d" % at for at in range(1, 6)])
    await broker.settle(await broker.claim("u", 3))
    await trim(broker, "u")
    assert await broker.seek("u", "earliest") == {0: 4}
    assert await drain(broker, "u") == [b"4", b"5"]


@three_lanes
async def test_a_seek_moves_every_partition_or_the_one_that_is_named(broker: Broker) -> None:
    await broker.create_queue("p", partitions=4, retention=3600)
    await broker.publish("p", [Message(b"m", key=f"k{at}") for at in range(40)])
    assert len(await drain(broker, "p")) == 40
    assert set(await broker.seek("p", "earliest")) == {0, 1, 2, 3}
    assert len(await drain(broker, "p")) == 40
    assert set(await broker.seek("p", "earliest", partition=2)) == {2}
    assert 0 < len(await drain(broker, "p")) < 40
    with pytest.raises(InvalidArgument, match="name one"):
        await broker.seek("p", 3)
    with pytest.raises(NotFound, match="partition 9"):
        await broker.seek("p", "latest", partition=9)


async def test_a_seek_of_one_subscription_leaves_the_others_alone(broker: Broker) -> None:
    await broker.create_topic("t")
    for name in ("s1", "s2"):
        await broker.create_subscription(name, "t")
    await broker.publish("t", [b"1", b"2"])
    await broker.seek("s1", "latest")
    assert await broker.claim("s1") == []
    assert await drain(broker, "s2") == [b"1", b"2"]


async def test_a_seek_back_begins_an_ordered_queue_anew(broker: Broker) -> None:
    await broker.create_queue("o", order="key", retention=3600)
    await broker.publish("o", [Message(b"1", key="k"), Message(b"2", key="k")])
    await broker.claim("o", 1)
    await broker.seek("o", "earliest")
    assert bodies(await broker.claim("o", 1)) == [b"1"]
    assert await broker.claim("o", 1) == []


async def test_a_purge_forgets_all_that_is_there_delayed_ones_included(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("d")
    await broker.publish("d", [b"1", b"2", Message(b"later", delay=60)])
    held = await broker.claim("d", 1)
    await other.purge("d")
    assert (await broker.depth("d")).total == 0
    await rig.advance(61)
    await quiet(broker)
    assert await broker.claim("d", 9) == []
    await broker.settle(held)
    await broker.publish("d", b"new")
    assert await drain(other, "d") == [b"new"]


async def test_a_purge_of_more_delayed_messages_than_one_step(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("d")
    await broker.publish("d", [Message(b"later", delay=60)] * 1200)
    await broker.purge("d")
    assert (await broker.depth("d")).total == 0


async def test_a_deleted_queue_is_gone_and_its_rows_follow_in_steps(broker: Broker, other: Broker, queue: str) -> None:
    await other.claim(queue)
    part = (await broker._engine.catalog.topic(queue)).partitions[0].part
    await broker.delete_queue(queue)
    for use in (other.publish(queue, b"m"), other.claim(queue), other.depth(queue), other.delete_queue(queue)):
        with pytest.raises(NotFound):
            await use
    await clear(broker)
    async with broker._engine.lanes.use(0) as lane:
        assert await lane.messages([], [(part, seq) for seq in range(1, 10)]) == []
        assert await lane.delete_remains(part, None, 10) == 0


async def test_a_queue_made_anew_under_its_old_name_is_empty(broker: Broker, other: Broker, queue: str) -> None:
    await other.claim(queue)
    await broker.delete_queue(queue)
    await broker.create_queue(queue)
    assert await other.claim(queue) == []
    await other.publish(queue, b"new")
    await clear(broker)
    assert await drain(broker, queue) == [b"new"]


async def test_a_seek_to_nonsense_is_refused(broker: Broker, queue: str) -> None:
    for place in ("sideways", -1, 2**62, -5.0):
        with pytest.raises(InvalidArgument):
            await broker.seek(queue, place)  # type: ignore[arg-type]


async def test_seeking_never_goes_below_what_retention_gave_up(broker: Broker, other: Broker) -> None:
    """`other` remembers where the log began before it was trimmed."""
    await broker.create_queue("q", dead_letter="d", dead_letter_expired=True)
    await broker.publish("q", [b"m"] * 20)
    await drain(broker, "q")
    for at, body in enumerate([b"x", b"y"]):
        await other.publish("q", body)
        claimer = (broker, other)[at]
        await claimer.settle(await claimer.claim("q"))
        assert await other.claim("q", 5) == []
    await trim(broker, "q")
    await other.publish("q", b"z")
    assert await other.seek("q", "earliest") == {0: 23}
    assert await drain(other, "q") == [b"z"]


async def test_a_purge_ends_though_delayed_messages_keep_coming(broker: Broker) -> None:
    await broker.create_queue("d")
    purged = asyncio.Event()

    async def load() -> None:
        while not purged.is_set():
            await broker.publish("d", [Message(b"later", delay=100)] * 20)

    loads = [asyncio.create_task(load()) for _ in range(8)]

    async def loaded() -> bool:
        return (await broker.depth("d")).delayed > 200

    try:
        await eventually(loaded)
        await asyncio.wait_for(broker.purge("d"), 5)
        assert not any(task.done() for task in loads)
    finally:
        purged.set()
        await asyncio.gather(*loads)


async def test_a_purge_and_a_delayed_message_that_share_a_cycle(broker: Broker) -> None:
    await broker.create_queue("d")
    await broker.publish("d", [Message(b"later", delay=100)] * 3)
    await asyncio.gather(broker.purge("d"), broker.publish("d", Message(b"new", delay=100)))
    assert (await broker.depth("d")).delayed <= 1
    await broker.purge("d")
    assert (await broker.depth("d")).total == 0
