"""Expiry: per message and per topic; what has expired is never handed out, and costs little to pass."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rowlock import Message

from .rig import bodies, drain, quiet, sweep

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


async def test_an_expired_message_is_never_handed_out(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"short", expires_in=10), b"long", Message(b"middle", expires_in=100)])
    await rig.advance(10.1)
    assert bodies(await other.claim("q", 10)) == [b"long", b"middle"]


async def test_a_message_that_expires_while_it_is_held_does_not_come_again(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", expires_in=10))
    await broker.claim("q", visibility_timeout=5)
    await rig.advance(11)
    assert await other.claim("q") == []
    assert await broker.claim("q") == []


async def test_a_holder_may_settle_what_expired_meanwhile(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", expires_in=10))
    [message] = await broker.claim("q", visibility_timeout=60)
    await rig.advance(11)
    await message.settle()


async def test_a_topics_expiry_holds_for_messages_that_say_nothing_or_more(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", expires_in=20)
    await broker.publish("q", [b"default", Message(b"more", expires_in=100), Message(b"less", expires_in=5)])
    await rig.advance(6)
    assert bodies(await broker.claim("q", 10, visibility_timeout=1)) == [b"default", b"more"]
    await rig.advance(15)
    assert await broker.claim("q", 10) == []


async def test_expired_messages_leave_the_depth_though_nobody_claims(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"m", expires_in=10) for _ in range(700)])
    await rig.advance(11)
    await sweep(broker)
    assert (await broker.depth("q")).total == 0


async def test_released_messages_that_expired_leave_the_depth_though_nobody_claims(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"m", expires_in=10) for _ in range(3)])
    await broker.release(await broker.claim("q", 3))
    await sweep(broker)
    await rig.advance(61)
    await sweep(broker)
    assert (await broker.depth("q")).total == 0


async def test_many_expired_messages_are_passed_quickly_to_the_live_one_behind_them(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    for _ in range(6):
        await broker.publish("q", [Message(b"x", expires_in=10)] * 10_000)
    await broker.publish("q", b"live")
    await rig.advance(11)
    started = time.monotonic()
    assert bodies(await broker.claim("q")) == [b"live"]
    assert time.monotonic() - started < 3


async def test_expired_messages_between_live_ones_are_left_out(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"%d" % at, expires_in=10 if at % 3 else None) for at in range(300)])
    await rig.advance(11)
    assert await drain(broker, "q") == [b"%d" % at for at in range(0, 300, 3)]


async def test_in_an_ordered_queue_an_expired_message_frees_its_key(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", order="key", visibility_timeout=5)
    await broker.publish("q", [Message(b"1", key="k", expires_in=10), Message(b"2", key="k")])
    await broker.claim("q")
    await rig.advance(11)
    assert bodies(await broker.claim("q", 5)) == [b"2"]


async def test_an_expired_delayed_message_never_comes(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"never", delay=20, expires_in=10), Message(b"later", delay=20)])
    await rig.advance(21)
    await sweep(broker)
    await quiet(broker)
    assert await drain(broker, "q") == [b"later"]
