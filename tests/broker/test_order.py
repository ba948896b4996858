"""Order: by key, by topic; and that one busy key keeps back no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.errors import InUse, InvalidArgument, PublishRefused, StaleReceipt

from .rig import bodies, cycles, drain

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


def keyed(*bodies: bytes) -> list[Message]:
    """The first letter is the key."""
    return [Message(body, key=body[:1].decode()) for body in bodies]


@pytest.fixture
async def queue(broker: Broker) -> str:
    await broker.create_queue("q", order="key", visibility_timeout=30)
    await broker.publish("q", keyed(b"a1", b"a2", b"b1", b"a3", b"b2", b"c1"))
    return "q"


async def test_a_key_that_is_held_keeps_back_its_own_messages_and_no_others(
    broker: Broker, other: Broker, queue: str
) -> None:
    assert bodies(await broker.claim(queue, 1)) == [b"a1"]
    assert bodies(await other.claim(queue, 1)) == [b"b1"]
    assert bodies(await broker.claim(queue, 9)) == [b"c1"]
    assert await other.claim(queue, 9) == []


async def test_one_answer_may_have_several_of_a_key_in_sequence(broker: Broker, queue: str) -> None:
    claimed = bodies(await broker.claim(queue, 9))
    assert [one for one in claimed if one.startswith(b"a")] == [b"a1", b"a2", b"a3"]
    assert len(claimed) == 6


async def test_the_next_of_a_key_comes_once_all_of_it_are_settled(broker: Broker, other: Broker, queue: str) -> None:
    [a1] = await broker.claim(queue, 1)
    await a1.settle()
    assert bodies(await other.claim(queue, 1)) == [b"a2"]


async def test_a_released_message_comes_before_the_later_ones_of_its_key(
    broker: Broker, other: Broker, queue: str
) -> None:
    held = await broker.claim(queue, 9)
    await broker.release(held)
    assert [one for one in bodies(await other.claim(queue, 9)) if one[:1] == b"a"] == [b"a1", b"a2", b"a3"]


async def test_nobody_gets_a_released_message_while_a_later_one_of_its_key_is_held(
    rig: Rig, broker: Broker, other: Broker, queue: str
) -> None:
    held = {one.body: one for one in await broker.claim(queue, 9)}
    await held[b"a1"].release()
    assert await other.claim(queue, 9) == []
    assert await broker.claim(queue, 9) == []
    await held[b"a2"].settle()
    await held[b"a3"].settle()
    assert bodies(await other.claim(queue, 9)) == [b"a1"]


async def test_a_message_that_waits_for_a_retry_keeps_its_key_back(rig: Rig, broker: Broker, queue: str) -> None:
    [a1] = await broker.claim(queue, 1)
    await a1.release(delay=50)
    assert bodies(await broker.claim(queue, 9)) == [b"b1", b"b2", b"c1"]
    await rig.advance(51)
    assert bodies(await broker.claim(queue, 1)) == [b"a1"]


async def test_when_a_hold_runs_out_the_key_starts_again_from_there(
    rig: Rig, broker: Broker, other: Broker, queue: str
) -> None:
    assert len(await broker.claim(queue, 9)) == 6
    await rig.advance(31)
    assert [one for one in bodies(await other.claim(queue, 9)) if one[:1] == b"a"] == [b"a1", b"a2", b"a3"]


async def test_a_late_settle_is_refused_in_an_ordered_queue(rig: Rig, broker: Broker, queue: str) -> None:
    [a1] = await broker.claim(queue, 1)
    await rig.advance(31)
    with pytest.raises(StaleReceipt):
        await a1.settle()


async def test_order_by_key_refuses_messages_without_one(broker: Broker, queue: str) -> None:
    with pytest.raises(PublishRefused, match="needs a key"):
        await broker.publish(queue, b"m")


async def test_a_subscription_by_key_makes_every_broker_ask_for_keys(broker: Broker, other: Broker) -> None:
    """Also one that knew the topic before."""
    await broker.create_topic("t")
    await other.publish("t", b"before")
    await broker.create_subscription("s", "t", order="key", start="earliest")
    with pytest.raises(PublishRefused, match="needs a key"):
        await other.publish("t", b"m")
    await broker.delete_subscription("s")
    await other.publish("t", b"again without")


async def test_a_whole_topic_in_order(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("t", order="topic", visibility_timeout=30)
    await broker.publish("t", keyed(b"x1", b"y2", b"x3"))
    [first] = await broker.claim("t")
    assert await other.claim("t", 9) == []
    await first.settle()
    assert bodies(await other.claim("t", 9)) == [b"y2", b"x3"]
    await rig.advance(31)
    assert bodies(await broker.claim("t", 9)) == [b"y2", b"x3"]


async def test_an_empty_claim_of_a_busy_ordered_topic_costs_one_cycle(broker: Broker) -> None:
    await broker.create_queue("t", order="topic")
    await broker.publish("t", [b"1", b"2", b"3"])
    await broker.claim("t")
    [cycle] = cycles(broker)
    before = cycle.counters.cycles
    assert await broker.claim("t") == []
    assert cycle.counters.cycles == before + 1


async def test_a_topic_in_order_has_one_partition(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match="'topic'"):
        await broker.create_queue("t", order="topic", partitions=2)
    await broker.create_queue("one", order="topic")
    with pytest.raises(InvalidArgument, match="'topic'"):
        await broker.alter_queue("one", partitions=2)
    await broker.create_queue("two", partitions=2)
    with pytest.raises(InvalidArgument, match="'topic'"):
        await broker.alter_queue("two", order="topic")


async def test_an_ordered_topic_gains_partitions_only_while_it_is_empty(broker: Broker, queue: str) -> None:
    with pytest.raises(InUse, match="only while it is empty"):
        await broker.alter_queue(queue, partitions=3)
    await broker.create_queue("empty", order="key")
    await broker.alter_queue("empty", partitions=3)
    await broker.publish("empty", keyed(b"a1", b"b1", b"a2"))
    assert sorted(await drain(broker, "empty")) == [b"a1", b"a2", b"b1"]


async def test_an_ordered_queue_keeps_its_order_over_a_crash(rig: Rig, broker: Broker, queue: str) -> None:
    await broker.claim(queue, 1)
    await rig.crash(broker)
    after = await rig.open()
    assert bodies(await after.claim(queue, 9)) == [b"b1", b"b2", b"c1"]
    await rig.advance(31)
    assert bodies(await after.claim(queue, 1)) == [b"a1"]


async def test_one_key_that_fills_the_look_ahead_makes_claims_wait(broker: Broker) -> None:
    await broker.create_queue("l", order="key", look_ahead=10)
    await broker.publish("l", keyed(*[b"a%d" % at for at in range(30)], b"b1"))
    [a0] = await broker.claim("l", 1)
    assert await broker.claim("l", 5) == []
    await a0.settle()
    assert len(await broker.claim("l", 50)) >= 10


async def test_order_holds_between_partitions_of_one_key_only(broker: Broker, other: Broker) -> None:
    await broker.create_queue("p", order="key", partitions=4)
    await broker.publish("p", keyed(*[b"%c%d" % (97 + at % 8, at) for at in range(64)]))
    seen: dict[bytes, list[int]] = {}
    while True:
        claimed = [one for turn in range(4) for one in await (broker, other)[turn % 2].claim("p", 5)]
        if not claimed:
            break
        for message in claimed:
            seen.setdefault(message.body[:1], []).append(int(message.body[1:]))
            await message.settle()
    assert sum(map(len, seen.values())) == 64
    assert all(numbers == sorted(numbers) for numbers in seen.values())
