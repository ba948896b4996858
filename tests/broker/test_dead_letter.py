"""Dead-lettering: after so many receives, or on expiry; in one transaction, with everything kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.errors import InUse, InvalidArgument

from .conftest import three_lanes
from .rig import bodies, drain, eventually, quiet, sweep

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


@pytest.fixture
async def queue(broker: Broker) -> str:
    await broker.create_queue("q", visibility_timeout=30, max_receives=2, dead_letter="dead")
    return "q"


async def receive_until_dead(rig: Rig, broker: Broker, name: str, receives: int = 2) -> None:
    for _ in range(receives):
        assert await broker.claim(name, 100)
        await rig.advance(31)
    assert await broker.claim(name, 100) == []
    await quiet(broker)


async def test_a_message_received_as_often_as_allowed_is_dead_lettered(rig: Rig, broker: Broker, queue: str) -> None:
    [published] = await broker.publish(queue, Message(b"m", key="k", attributes={"a": 1}))
    await receive_until_dead(rig, broker, queue)
    [dead] = await broker.claim("dead")
    assert (dead.id, dead.body, dead.key, dead.attributes) == (published.id, b"m", "k", {"a": 1})
    origin = dead.origin
    assert origin is not None
    assert (origin.source, origin.topic, origin.reason, origin.receives) == ("q", "q", "receives", 2)
    assert (origin.partition, origin.sequence) == (0, published.sequence)
    assert dead.receives == 1
    depth = await broker.depth(queue)
    assert depth.total == 0


async def test_the_last_receive_may_still_be_settled(rig: Rig, broker: Broker, queue: str) -> None:
    await broker.publish(queue, b"m")
    await broker.claim(queue)
    await rig.advance(31)
    [last] = await broker.claim(queue)
    await last.settle()
    await rig.advance(31)
    await sweep(broker)
    assert await broker.claim("dead") == []


async def test_a_message_released_at_its_last_receive_is_dead_lettered_at_once(broker: Broker, queue: str) -> None:
    await broker.publish(queue, b"m")
    for _ in range(2):
        [message] = await broker.claim(queue)
        await message.release()
    await quiet(broker)
    assert bodies(await broker.claim("dead")) == [b"m"]


async def test_it_happens_by_a_timer_though_nobody_claims(rig: Rig, broker: Broker, queue: str) -> None:
    await broker.publish(queue, b"m")
    await broker.claim(queue)
    await rig.advance(31)
    await broker.claim(queue)
    await rig.advance(31)
    assert bodies(await broker.claim("dead", wait=10)) == [b"m"]


async def test_it_happens_though_the_broker_that_handed_it_out_is_gone(rig: Rig, broker: Broker, queue: str) -> None:
    await broker.publish(queue, b"m")
    await broker.claim(queue)
    await rig.advance(31)
    await broker.claim(queue)
    await rig.crash(broker)
    after = await rig.open()
    await rig.advance(31)
    await sweep(after)
    assert bodies(await after.claim("dead")) == [b"m"]


async def test_order_is_kept_in_the_dead_letter_queue(rig: Rig, broker: Broker, queue: str) -> None:
    expected = [b"%d" % at for at in range(40)]
    await broker.publish(queue, expected)
    await receive_until_dead(rig, broker, queue)
    assert await drain(broker, "dead") == expected


async def test_more_than_one_step_of_dead_letters(rig: Rig, broker: Broker, queue: str) -> None:
    for _ in range(2):
        await broker.publish(queue, [b"m"] * 600)
    for _ in range(2):
        assert len(await broker.claim(queue, 1000) + await broker.claim(queue, 1000)) == 1200
        await rig.advance(31)
    await sweep(broker)
    assert len(await drain(broker, "dead")) == 1200


async def test_a_dead_letter_in_an_ordered_queue_frees_its_key(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("o", order="key", max_receives=1, dead_letter="dead", visibility_timeout=30)
    await broker.publish("o", [Message(b"1", key="k"), Message(b"2", key="k")])
    assert bodies(await broker.claim("o", 1)) == [b"1"]
    await rig.advance(31)
    assert bodies(await broker.claim("o", 1, wait=5)) == [b"2"]
    await quiet(broker)
    assert bodies(await broker.claim("dead")) == [b"1"]


async def test_expired_messages_are_dead_lettered_where_that_is_set(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("e", dead_letter="dead", dead_letter_expired=True)
    await broker.publish("e", [Message(b"gone", expires_in=10), Message(b"kept")])
    await rig.advance(11)
    await sweep(broker)
    [dead] = await broker.claim("dead")
    assert dead.body == b"gone"
    assert dead.origin is not None
    assert (dead.origin.reason, dead.origin.receives) == ("expired", 0)
    assert dead.expires_at is None
    assert await drain(broker, "e") == [b"kept"]


async def test_an_expired_message_that_was_released_is_dead_lettered_too(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("e", dead_letter="dead", dead_letter_expired=True)
    await broker.publish("e", Message(b"gone", expires_in=10))
    [message] = await broker.claim("e")
    await message.release()
    await rig.advance(11)
    await sweep(broker)
    await eventually(lambda: broker.claim("dead"))


async def test_a_broker_that_never_saw_the_queue_dead_letters_what_expired(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("e", dead_letter="dead", dead_letter_expired=True)
    await broker.publish("e", [Message(b"%d" % at, expires_in=10) for at in range(5)])
    await rig.crash(broker)
    after = await rig.open()
    await rig.advance(11)
    await sweep(after)
    await sweep(after)
    assert await drain(after, "dead") == [b"%d" % at for at in range(5)]


@three_lanes
async def test_each_partition_has_its_dead_letters_in_its_own_lane(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", partitions=5, max_receives=1, dead_letter="dead", visibility_timeout=30)
    await broker.publish("q", [Message(b"%d" % at, key=f"k{at}") for at in range(40)])
    assert len([one for _ in range(3) for one in await other.claim("q", 100)]) == 40
    await rig.advance(31)
    for _ in range(3):
        await sweep(broker)
    assert sorted(await drain(broker, "dead"), key=int) == [b"%d" % at for at in range(40)]


async def test_a_queue_that_is_somebodys_dead_letter_queue_is_not_deleted_silently(broker: Broker, queue: str) -> None:
    await broker.publish(queue, b"m")
    with pytest.raises(InUse, match="'q'"):
        await broker.delete_queue("dead")


async def test_receives_are_counted_over_brokers(rig: Rig, broker: Broker, other: Broker, queue: str) -> None:
    await broker.publish(queue, b"m")
    await broker.claim(queue)
    await rig.advance(31)
    [message] = await other.claim(queue)
    assert message.receives == 2
    await rig.advance(31)
    assert await broker.claim(queue) == []
    await quiet(broker)
    assert bodies(await other.claim("dead")) == [b"m"]


async def test_dead_letter_settings_must_make_sense(broker: Broker) -> None:
    for settings in ({"max_receives": 3}, {"dead_letter": "d"}, {"dead_letter_expired": True}):
        with pytest.raises(InvalidArgument, match="dead_letter"):
            await broker.create_queue("bad", **settings)
    with pytest.raises(InvalidArgument, match="bad"):
        await broker.create_queue("bad", max_receives=3, dead_letter="bad")
