"""Topics and subscriptions: one stored copy for any number, several topics for one, and readers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Message
from rowlock.errors import InUse, InvalidArgument, NotFound

from .conftest import three_lanes
from .rig import bodies, drain, stored

if TYPE_CHECKING:
    from rowlock import Broker


async def test_every_subscription_gets_every_message_from_one_stored_copy(broker: Broker, other: Broker) -> None:
    await broker.create_topic("t")
    for number in range(5):
        await broker.create_subscription(f"s{number}", "t")
    await other.publish("t", [b"1", b"2", b"3"])
    assert await stored(broker, "t") == [1, 2, 3]
    for number in range(5):
        assert await drain((broker, other)[number % 2], f"s{number}") == [b"1", b"2", b"3"]


async def test_a_subscription_starts_at_the_latest_or_the_earliest(broker: Broker, other: Broker) -> None:
    await broker.create_topic("t", retention=3600)
    await broker.publish("t", b"before")
    await broker.create_subscription("new", "t")
    await broker.create_subscription("all", "t", start="earliest")
    await other.publish("t", b"after")
    assert await drain(broker, "new") == [b"after"]
    assert await drain(broker, "all") == [b"before", b"after"]


@three_lanes
async def test_one_subscription_may_read_several_topics(broker: Broker, other: Broker) -> None:
    for name in ("t1", "t2", "t3"):
        await broker.create_topic(name, partitions=2)
    await broker.create_subscription("s", ["t1", "t2", "t3"])
    for name in ("t1", "t2", "t3"):
        await other.publish(name, [Message(name.encode(), key=f"k{at}") for at in range(4)])
    assert sorted(await drain(broker, "s")) == [b"t1"] * 4 + [b"t2"] * 4 + [b"t3"] * 4


async def test_a_topic_of_a_queue_may_have_subscriptions_as_well(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.create_subscription("s", "q")
    await broker.publish("q", b"m")
    assert await drain(broker, "q") == [b"m"]
    assert await drain(broker, "s") == [b"m"]
    with pytest.raises(InUse, match="'s'"):
        await broker.delete_queue("q")
    await broker.delete_subscription("s")
    await broker.delete_queue("q")


async def test_a_topic_that_is_read_is_not_deleted(broker: Broker) -> None:
    await broker.create_topic("t")
    await broker.create_subscription("s", "t")
    with pytest.raises(InUse, match="'s'"):
        await broker.delete_topic("t")
    await broker.delete_subscription("s")
    await broker.delete_topic("t")
    with pytest.raises(NotFound):
        await broker.show_topic("t")


async def test_a_deleted_subscription_forgets_its_place(broker: Broker, other: Broker) -> None:
    await broker.create_topic("t", retention=3600)
    await broker.create_subscription("s", "t")
    await broker.publish("t", b"1")
    assert len(await other.claim("s")) == 1
    await broker.delete_subscription("s")
    with pytest.raises(NotFound):
        await other.claim("s")
    await broker.create_subscription("s", "t", start="earliest")
    assert await drain(other, "s") == [b"1"]


async def test_new_partitions_lose_nothing_of_what_is_published_at_once(broker: Broker, other: Broker) -> None:
    """Messages in a partition that is being made belong to every subscription there is."""
    await broker.create_topic("t")
    await broker.create_subscription("s", "t", start="latest")
    put = broker._engine.administer._put_cursors

    async def publish_first(*args: Any, **options: Any) -> None:
        await other.publish("t", [Message(b"m", key=f"k{at}") for at in range(50)])
        await put(*args, **options)

    broker._engine.administer._put_cursors = publish_first  # type: ignore[method-assign]
    await broker.alter_topic("t", partitions=8)
    assert len(await drain(broker, "s")) == 50


@three_lanes
async def test_a_topic_gains_partitions_while_it_is_used(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    sent = 0

    async def publish() -> None:
        nonlocal sent
        for _ in range(30):
            await other.publish("q", [Message(b"m", key=f"k{at}") for at in range(5)])
            sent += 5

    publishing = asyncio.create_task(publish())
    for partitions in (2, 3, 5):
        await broker.alter_queue("q", partitions=partitions)
    await publishing
    assert len((await broker.show_topic("q")).partitions) == 5
    assert len(await drain(other, "q")) == sent == 150


async def test_a_subscription_that_reads_nothing_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidArgument, match="at least one"):
        await broker.create_subscription("s", [])
    with pytest.raises(NotFound, match="'nowhere'"):
        await broker.create_subscription("s", "nowhere")


# Readers


async def test_a_reader_is_a_position_that_commit_moves(broker: Broker, other: Broker) -> None:
    await broker.create_topic("t")
    await broker.create_reader("r", "t")
    await broker.publish("t", [b"m"] * 10)
    await broker.commit("r", 5)
    [place] = (await other.show_subscription("r")).partitions
    assert (place["frontier"], place["lag"]) == (5, 6)


async def test_nothing_is_claimed_from_a_reader_and_nothing_but_a_reader_is_committed(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.create_reader("r", "q")
    with pytest.raises(InvalidArgument, match="reader"):
        await broker.claim("r")
    with pytest.raises(InvalidArgument, match="not a reader"):
        await broker.commit("q", 1)


async def test_two_subscriptions_of_a_topic_may_differ_in_order(broker: Broker) -> None:
    await broker.create_topic("t")
    await broker.create_subscription("ordered", "t", order="key")
    await broker.create_subscription("free", "t")
    await broker.publish("t", [Message(b"1", key="k"), Message(b"2", key="k")])
    for name, expected in (("ordered", []), ("free", [b"2"])):
        assert bodies(await broker.claim(name, 1)) == [b"1"]
        assert bodies(await broker.claim(name, 1)) == expected
