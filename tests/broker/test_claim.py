"""Claim: who holds what, for how long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock import Message, limits
from rowlock.errors import InvalidArgument, NotFound

from .conftest import three_lanes
from .rig import bodies, cycles, drain

if TYPE_CHECKING:
    from rowlock import Broker
    from rowlock.store.port import Stored, Wanted

    from .rig import Rig


async def test_messages_come_in_sequence_and_each_once(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"%d" % at for at in range(10)])
    assert bodies(await broker.claim("q", 4)) == [b"0", b"1", b"2", b"3"]
    assert bodies(await other.claim("q", 4)) == [b"4", b"5", b"6", b"7"]
    assert bodies(await broker.claim("q", 4)) == [b"8", b"9"]
    assert await other.claim("q", 4) == []


async def test_a_thousand_messages_in_one_call(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"m"] * 1100)
    assert len(await broker.claim("q", 1000)) == 1000
    assert len(await broker.claim("q", 1000)) == 100


async def test_a_held_message_comes_again_once_its_time_is_over_and_counts_it(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", b"m")
    [first] = await broker.claim("q")
    await rig.advance(29)
    assert await broker.claim("q") == []
    await rig.advance(1.1)
    [second] = await broker.claim("q")
    assert (first.receives, second.receives, second.id) == (1, 2, first.id)


async def test_another_broker_gets_it_once_the_time_is_over(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"m")
    await broker.claim("q", visibility_timeout=5)
    assert await other.claim("q") == []
    await rig.advance(5.1)
    [message] = await other.claim("q")
    assert message.receives == 2


async def test_holds_survive_the_broker_that_gave_them(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"held", b"next"])
    [message] = await broker.claim("q", visibility_timeout=60)
    receipt = message.receipt
    await rig.crash(broker)
    after = await rig.open()
    assert bodies(await after.claim("q", 10)) == [b"next"]
    await after.settle([receipt])
    await rig.advance(61)
    assert bodies(await after.claim("q", 10)) == [b"next"]


async def test_a_visibility_timeout_of_zero_holds_nothing(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"m")
    receives = [(await broker.claim("q", visibility_timeout=0))[0].receives for _ in range(3)]
    assert receives == [1, 2, 3]


async def test_a_visibility_timeout_may_be_twelve_hours_and_no_more(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"m")
    with pytest.raises(InvalidArgument, match="43200"):
        await broker.claim("q", visibility_timeout=12 * 3600 + 1)
    await broker.claim("q", visibility_timeout=12 * 3600)
    await rig.advance(12 * 3600 - 5)
    assert await broker.claim("q") == []
    await rig.advance(6)
    assert len(await broker.claim("q")) == 1


async def test_many_callers_at_once_share_the_messages_without_a_double(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"%d" % at for at in range(200)])
    claims = await asyncio.gather(*((broker, other)[at % 2].claim("q", 7) for at in range(40)))
    found = [message.body for claimed in claims for message in claimed]
    assert sorted(found, key=int) == [b"%d" % at for at in range(200)]


@three_lanes
async def test_a_queue_of_many_partitions_is_served_whole(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", partitions=7)
    await broker.publish("q", [Message(b"%d" % at, key=f"k{at}") for at in range(60)])
    found = await drain(broker, "q", 5) + await drain(other, "q", 5)
    assert sorted(found, key=int) == [b"%d" % at for at in range(60)]


async def test_when_it_was_accepted_published_and_first_received_is_told(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", delay=10))
    await rig.advance(10.1)
    [message] = await broker.claim("q", wait=5)
    assert 9 <= (message.published_at - message.accepted_at).total_seconds() <= 12


async def test_claiming_from_what_does_not_exist_is_refused_by_name(broker: Broker) -> None:
    with pytest.raises(NotFound, match="'nowhere'"):
        await broker.claim("nowhere")


async def test_an_empty_claim_writes_nothing(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"m")
    await drain(broker, "q")
    before = await broker.show_queue("q")
    assert await broker.claim("q") == []
    assert (await broker.show_queue("q")).partitions == before.partitions


async def test_in_a_fair_queue_a_key_with_far_more_in_flight_is_set_back(broker: Broker) -> None:
    await broker.create_queue("q", fair=True)
    await broker.publish("q", [Message(b"greedy", key="greedy") for _ in range(60)])
    await broker.publish("q", [Message(b"small", key=f"s{at}") for at in range(10)])
    first = bodies(await broker.claim("q", 20))
    assert first.count(b"small") >= 9


async def test_in_a_fair_queue_nothing_is_set_back_for_ever(broker: Broker) -> None:
    await broker.create_queue("q", fair=True)
    await broker.publish("q", [Message(b"g", key="greedy") for _ in range(60)])
    assert sum([len(await broker.claim("q", 10)) for _ in range(10)]) == 60


async def test_large_messages_that_were_held_are_read_in_bounded_steps(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", max_message_bytes=limits.MESSAGE_MAX_BYTES, visibility_timeout=5)
    body = b"x" * limits.MESSAGE_MAX_BYTES
    for _ in range(2):
        await broker.publish("q", [body] * 10)
    while await broker.claim("q", 1000):
        pass
    await rig.advance(10)
    assert len(await other.claim("q", 1)) == 1
    [cycle] = cycles(other)
    assert cycle._lane is not None
    lane = cycle._lane.real  # type: ignore[attr-defined]
    read, sizes = lane.messages, []

    async def messages(ranges: list[Wanted], seqs: list[tuple[int, int]]) -> list[Stored]:
        found: list[Stored] = await read(ranges, seqs)
        sizes.append(sum(message.size for message in found))
        return found

    lane.messages = messages
    claimed = 1
    while found := await other.claim("q", 1000):
        claimed += len(found)
    assert claimed == 20
    assert max(sizes) < 2 * limits.CYCLE_BYTES
