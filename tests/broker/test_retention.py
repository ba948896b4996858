"""Retention: rows go when every subscription is done with them, or when their time is over, and only as a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.broker.background import TRIM_MESSAGES
from rowlock.broker.work import Outdated

from .conftest import three_lanes
from .rig import bodies, clear, drain, stored, sweep, trim

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


async def test_acknowledged_rows_go_and_the_newest_stays(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"m"] * 20)
    await drain(broker, "q")
    await trim(broker, "q")
    assert await stored(broker, "q") == [20]


async def test_a_sequence_is_never_used_twice_though_everything_was_deleted(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"m"] * 20)
    await drain(broker, "q")
    await trim(broker, "q")
    assert (await other.publish("q", b"n"))[0].sequence == 21
    assert await drain(other, "q") == [b"n"]


async def test_what_is_held_or_waits_is_kept_with_all_behind_it(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"m"] * 20)
    claimed = await broker.claim("q", 20)
    await broker.settle(claimed[:5] + claimed[7:])
    await trim(broker, "q")
    assert await stored(broker, "q") == list(range(6, 21))
    await broker.settle(claimed[5:7])


async def test_rows_wait_for_the_slowest_subscription(broker: Broker) -> None:
    await broker.create_topic("t")
    await broker.create_subscription("fast", "t")
    await broker.create_subscription("slow", "t")
    await broker.publish("t", [b"m"] * 10)
    await drain(broker, "fast")
    await trim(broker, "t")
    assert len(await stored(broker, "t")) == 10
    await broker.settle(await broker.claim("slow", 4))
    await trim(broker, "t")
    assert await stored(broker, "t") == list(range(5, 11))
    assert len(await drain(broker, "slow")) == 6


async def test_a_reader_keeps_rows_until_it_has_committed(broker: Broker) -> None:
    await broker.create_topic("t")
    await broker.create_reader("r", "t")
    await broker.publish("t", [b"m"] * 10)
    await trim(broker, "t")
    assert len(await stored(broker, "t")) == 10
    await broker.commit("r", 6)
    await trim(broker, "t")
    assert await stored(broker, "t") == list(range(6, 11))


async def test_until_acknowledged_ends_after_seven_days(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"old"] * 10)
    await rig.advance(7 * 24 * 3600 - 60)
    await broker.publish("q", [b"new"] * 3)
    await trim(broker, "q")
    assert len(await stored(broker, "q")) == 13
    await rig.advance(120)
    await trim(broker, "q")
    assert len(await stored(broker, "q")) == 3
    assert await drain(broker, "q") == [b"new"] * 3


async def test_for_a_duration_acknowledged_rows_stay_and_others_go_at_its_end(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", retention=3600)
    await broker.publish("q", [b"a", b"b", b"c"])
    await broker.settle(await broker.claim("q", 2))
    await trim(broker, "q")
    assert len(await stored(broker, "q")) == 3
    await rig.advance(3601)
    await broker.publish("q", b"d")
    await trim(broker, "q")
    assert await drain(broker, "q") == [b"d"]


async def test_what_is_held_past_its_retention_is_dropped_and_its_settle_is_no_error(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", retention=3600)
    await broker.publish("q", b"m")
    [message] = await broker.claim("q", visibility_timeout=12 * 3600)
    await rig.advance(3601)
    await broker.publish("q", b"n")
    await trim(broker, "q")
    await message.settle()
    assert await drain(broker, "q") == [b"n"]


async def test_a_topic_without_subscriptions_keeps_messages_for_those_to_come(rig: Rig, broker: Broker) -> None:
    await broker.create_topic("t")
    await broker.publish("t", [b"1", b"2"])
    await trim(broker, "t")
    await broker.create_subscription("s", "t", start="earliest")
    assert await drain(broker, "s") == [b"1", b"2"]


async def test_another_brokers_cache_does_not_hand_out_what_retention_removed(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    await broker.create_queue("q", retention=3600)
    await other.publish("q", [b"1", b"2", b"3"])
    assert len(await other.claim("q", 1, visibility_timeout=0)) == 1
    await rig.advance(3601)
    await trim(broker, "q")
    assert await other.claim("q", 10) == []


@three_lanes
async def test_retention_works_in_every_partition(broker: Broker) -> None:
    await broker.create_queue("q", partitions=5)
    await broker.publish("q", [Message(b"m", key=f"k{at}") for at in range(60)])
    await drain(broker, "q")
    await trim(broker, "q")
    assert len(await stored(broker, "q")) == 5


async def test_old_deduplication_ids_are_forgotten(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", Message(b"m", deduplication_id="d"))
    await rig.advance(3600)
    await clear(broker)
    topic = await broker._engine.catalog.topic("q")
    async with broker._engine.lanes.use(0) as lane:
        assert await lane.delete_deduplicated(topic.partitions[0].part, 2**60, 100) == 0


async def test_a_broker_goes_on_after_a_day_of_doing_nothing(rig: Rig, broker: Broker, other: Broker) -> None:
    """Its place among the writers was cleared away meanwhile."""
    await broker.create_queue("q")
    await broker.publish("q", b"before")
    await rig.advance(2 * 24 * 3600)
    await clear(other)
    await broker.publish("q", b"after")
    await broker.create_queue("r")
    assert bodies(await other.claim("q", 9)) == [b"before", b"after"]


async def test_trouble_with_one_partition_does_not_keep_the_sweep_from_the_others(
    rig: Rig, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_queue("broken")
    await broker.create_queue("q", dead_letter="d", dead_letter_expired=True)
    await broker.publish("broken", [b"m"] * TRIM_MESSAGES)
    await drain(broker, "broken")
    await broker.publish("q", Message(b"expires", expires_in=1))
    await rig.advance(5)
    background = broker._engine._background
    assert background is not None
    asked = []

    async def refuse(part: int) -> None:
        asked.append(part)
        raise Outdated

    monkeypatch.setattr(background, "trim", refuse)
    await sweep(broker)
    assert asked
    assert (await broker.depth("d")).ready == 1
