"""Durability per topic: what the database cannot give is refused before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.errors import DurabilityUnavailable, InvalidArgument

from .rig import bodies, drain

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


async def test_local_is_the_default(broker: Broker) -> None:
    await broker.create_queue("q")
    assert (await broker.show_queue("q")).settings["durability"] == "local"


async def test_relaxed_messages_are_seen_by_everybody(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", durability="relaxed")
    await broker.publish("q", [b"1", b"2"])
    assert await drain(other, "q") == [b"1", b"2"]


async def test_relaxed_messages_survive_the_broker(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q", durability="relaxed")
    await broker.publish("q", b"m")
    await rig.crash(broker)
    assert await drain(await rig.open(), "q") == [b"m"]


async def test_replicated_is_refused_where_there_is_no_standby(broker: Broker) -> None:
    with pytest.raises(DurabilityUnavailable):
        await broker.create_queue("q", durability="replicated")
    assert await broker.topics() == []
    await broker.create_queue("q")


async def test_one_subscription_may_read_topics_of_different_durability(broker: Broker) -> None:
    await broker.create_topic("firm")
    await broker.create_topic("loose", durability="relaxed")
    await broker.create_subscription("s", ["firm", "loose"])
    await broker.publish("firm", b"1")
    await broker.publish("loose", b"2")
    assert sorted(await drain(broker, "s")) == [b"1", b"2"]
    await broker.publish("loose", b"3")
    assert bodies(await broker.claim("s", wait=5)) == [b"3"]


async def test_another_word_is_refused_and_a_change_as_well(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match="durability"):
        await broker.create_topic("t", durability="maybe")
    await broker.create_topic("t")
    with pytest.raises(InvalidArgument, match="cannot be changed"):
        await broker.alter_topic("t", durability="relaxed")
