"""Creating, showing, changing: settings are checked, kept, compared, and changed while in use."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.errors import AlreadyExists, InvalidArgument, NotFound, PublishRefused

from .conftest import three_lanes
from .rig import bodies, drain

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig

QUEUE = {
    "visibility_timeout": 7.5,
    "max_message_bytes": 9000,
    "delay": 1,
    "expires_in": 600,
    "retention": 7200,
    "durability": "relaxed",
    "deduplication_window": 60,
    "max_in_flight": 77,
    "order": "key",
    "look_ahead": 500,
    "max_receives": 4,
    "dead_letter": "dead",
    "dead_letter_expired": True,
    "backoff": {"kind": "exponential", "seconds": 2, "factor": 3, "max_seconds": 60, "jitter": 0.5},
}


async def test_a_queue_shows_its_settings_creation_time_and_owner(rig: Rig, other: Broker) -> None:
    owner = await rig.open(owner="Ädmin 😀")
    await owner.create_queue("q", **QUEUE)
    shown = await other.show_queue("q")
    for name, value in QUEUE.items():
        assert shown.settings[name] == value, name
    assert (shown.name, shown.kind, shown.owner, shown.topics) == ("q", "queue", "Ädmin 😀", ["q"])
    assert abs(datetime.now(UTC) - shown.created_at) < timedelta(minutes=1)


async def test_creating_it_again_with_the_same_settings_succeeds(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", **QUEUE)
    before = await broker.show_queue("q")
    await other.create_queue("q", **QUEUE)
    await broker.create_queue("q", **QUEUE)
    assert await other.show_queue("q") == before


async def test_creating_it_again_with_other_settings_is_refused_and_says_which_differ(
    broker: Broker, other: Broker
) -> None:
    await broker.create_queue("q", visibility_timeout=30, delay=0)
    with pytest.raises(AlreadyExists, match=r"visibility_timeout is 30(\.0)?, not 31"):
        await other.create_queue("q", visibility_timeout=31)
    with pytest.raises(AlreadyExists, match="delay is 0"):
        await other.create_queue("q", delay=5)
    await broker.create_topic("t", partitions=2)
    with pytest.raises(AlreadyExists, match="partitions is 2, not 3"):
        await other.create_topic("t", partitions=3)
    await broker.create_subscription("s", "t", fair=True)
    with pytest.raises(AlreadyExists, match="fair is True, not False"):
        await other.create_subscription("s", "t")
    with pytest.raises(AlreadyExists, match="other topics"):
        await other.create_subscription("s", ["t", "q"], fair=True)


async def test_many_may_create_the_same_queue_at_once(broker: Broker, other: Broker) -> None:
    await asyncio.gather(*((broker, other)[at % 2].create_queue("q", partitions=2) for at in range(8)))
    assert [one.name for one in await broker.queues()] == ["q"]
    await other.publish("q", [Message(b"m", key=f"k{at}") for at in range(10)])
    assert len(await drain(broker, "q")) == 10


async def test_a_queue_a_topic_and_a_subscription_do_not_take_each_others_names(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.create_topic("t")
    await broker.create_subscription("s", "t")
    with pytest.raises(AlreadyExists):
        await broker.create_queue("t")
    with pytest.raises(AlreadyExists):
        await broker.create_queue("s")
    with pytest.raises(AlreadyExists):
        await broker.create_subscription("q", "t")
    assert [one.name for one in await broker.queues()] == ["q"]
    assert [one.name for one in await broker.topics()] == ["q", "t"]
    assert [one.name for one in await broker.subscriptions()] == ["q", "s"]


NAMES = ["a", "A-b_9", "x" * 80, "orders.fifo", "select", "DROP-TABLE", "x" * 75 + ".fifo"]
NO_NAMES = ["", "x" * 81, "a b", "a/b", "a.b", ".fifo", "a.fifo.fifo", "ä", "a\0", "a\n", "a;--", "a'", 'a"', "%"]


async def test_names_are_data(broker: Broker, other: Broker) -> None:
    for name in NAMES:
        await broker.create_queue(name)
        await other.publish(name, name.encode())
    for name in NAMES:
        assert await drain(broker, name) == [name.encode()]
        await other.delete_queue(name)


async def test_names_that_differ_in_case_only_are_different(broker: Broker, other: Broker) -> None:
    for name in ("orders", "Orders", "ORDERS"):
        await broker.create_queue(name)
        await broker.publish(name, name.encode())
    for name in ("orders", "Orders", "ORDERS"):
        assert await drain(other, name) == [name.encode()]
    assert [one.name for one in await other.queues()] == ["ORDERS", "Orders", "orders"]


async def test_other_names_are_refused(broker: Broker) -> None:
    for name in NO_NAMES:
        for create in (broker.create_queue, broker.create_topic):
            with pytest.raises(InvalidArgument, match="80"):
                await create(name)
    assert await broker.topics() == []


async def test_lists_are_by_prefix_and_in_order(broker: Broker) -> None:
    for name in ("b-2", "a_1", "b-1", "B-3", "bb"):
        await broker.create_queue(name)
    assert [one.name for one in await broker.queues("b-")] == ["b-1", "b-2"]
    assert [one.name for one in await broker.queues("a_")] == ["a_1"]
    assert [one.name for one in await broker.queues("a%")] == []
    assert len(await broker.queues()) == 5


# Changes while in use


async def test_a_changed_visibility_timeout_holds_for_every_broker(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", visibility_timeout=100)
    await other.publish("q", [b"1", b"2"])
    await other.claim("q")
    await broker.alter_queue("q", visibility_timeout=5)
    await other.claim("q")
    await rig.advance(6)
    assert bodies(await other.claim("q", 9)) == [b"2"]
    assert (await other.show_queue("q")).settings["visibility_timeout"] == 5


async def test_a_size_limit_that_was_raised_or_lowered_holds_for_every_broker(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", max_message_bytes=10)
    await other.publish("q", b"x" * 10)
    await broker.alter_queue("q", max_message_bytes=20)
    await other.publish("q", b"x" * 20)
    await broker.alter_queue("q", max_message_bytes=5)
    with pytest.raises(PublishRefused, match="5"):
        await other.publish("q", b"x" * 6)


async def test_a_change_leaves_the_other_settings_and_the_messages_as_they_are(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", **QUEUE)
    await other.publish("q", Message(b"m", key="k"))
    await broker.alter_queue("q", max_in_flight=88, expires_in=700)
    shown = await other.show_queue("q")
    assert {name: shown.settings[name] for name in QUEUE} == QUEUE | {"max_in_flight": 88, "expires_in": 700}
    assert (await other.depth("q")).total == 1


async def test_holders_may_settle_over_a_change(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"1", b"2"])
    one, two = await other.claim("q", 2)
    await broker.alter_queue("q", max_receives=5, dead_letter="dead", fair=True)
    await other.settle([one])
    await broker.settle([two.receipt])
    assert (await other.depth("q")).total == 0


async def test_a_queue_may_become_ordered_and_free_again(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await other.publish("q", [Message(b"1", key="k"), Message(b"2", key="k"), Message(b"3", key="k")])
    [first] = await other.claim("q")
    await broker.alter_queue("q", order="key")
    assert await other.claim("q", 9) == []
    await first.settle()
    [second] = await other.claim("q")
    await broker.alter_queue("q", order="none")
    assert bodies(await other.claim("q", 9)) == [b"3"]
    await other.publish("q", b"without a key")
    await second.settle()


async def test_bad_changes_are_refused_and_change_nothing(broker: Broker) -> None:
    await broker.create_queue("q")
    before = await broker.show_queue("q")
    for change in (
        {"visibility_timeout": -1},
        {"durability": "relaxed"},
        {"max_receives": 5},
        {"unknown": 1},
        {"max_message_bytes": 100, "visibility_timeout": 50_000},
        {"partitions": 0},
        {"partitions": 2, "order": "topic"},
    ):
        with pytest.raises(InvalidArgument):
            await broker.alter_queue("q", **change)
    assert await broker.show_queue("q") == before
    await broker.alter_queue("q", partitions=3)
    with pytest.raises(InvalidArgument, match="cannot have fewer"):
        await broker.alter_queue("q", partitions=2)


async def test_changing_or_showing_what_does_not_exist_is_refused_by_name(broker: Broker) -> None:
    await broker.create_topic("t")
    for call in (
        broker.alter_queue("nowhere", delay=1),
        broker.alter_topic("nowhere", delay=1),
        broker.alter_subscription("nowhere", fair=True),
        broker.show_queue("nowhere"),
        broker.show_topic("nowhere"),
        broker.show_subscription("nowhere"),
        broker.delete_queue("nowhere"),
        broker.delete_topic("nowhere"),
        broker.delete_subscription("nowhere"),
        broker.depth("nowhere"),
        broker.purge("nowhere"),
        broker.seek("nowhere", "latest"),
    ):
        with pytest.raises(NotFound, match="'nowhere'"):
            await call


@three_lanes
async def test_a_change_in_use_loses_and_doubles_nothing(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", partitions=2)
    found: list[bytes] = []

    async def produce() -> None:
        for at in range(40):
            await other.publish("q", Message(b"%d" % at, key=f"k{at}"))

    async def consume() -> None:
        while len(found) < 40:
            messages = await other.claim("q", 5, wait=0.2)
            found.extend(bodies(messages))
            await other.settle(messages)

    async def change() -> None:
        for at in range(8):
            await broker.alter_queue("q", visibility_timeout=30 + at, max_message_bytes=4096 + at)

    await asyncio.wait_for(asyncio.gather(produce(), consume(), change()), 30)
    assert sorted(found, key=int) == [b"%d" % at for at in range(40)]


async def test_an_alter_that_died_halfway_is_completed_by_who_uses_the_queue(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    """Settings were changed in the catalog, and the process died before the lanes knew."""
    await broker.create_queue("q")
    await other.publish("q", [b"1", b"2"])
    administer = broker._engine.administer

    async def die(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    administer._transact = die  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await administer.alter("q", "topic", {"max_message_bytes": 50})
    with pytest.raises(asyncio.CancelledError):
        await administer.alter("q", "subscription", {"visibility_timeout": 5})
    await rig.crash(broker)
    fresh = await rig.open()
    await fresh.publish("q", b"3")
    with pytest.raises(PublishRefused, match="50"):
        await other.publish("q", b"x" * 51)
    assert len(await other.claim("q", 9)) == 3
    await rig.advance(6)
    assert len(await fresh.claim("q", 9)) == 3


async def test_a_creation_that_died_halfway_is_completed_by_who_asks_for_it_again(rig: Rig, broker: Broker) -> None:
    administer = broker._engine.administer

    async def die(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    administer._transact = die  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await broker.create_queue("q")
    await rig.crash(broker)
    fresh = await rig.open()
    await fresh.create_queue("q")
    await fresh.publish("q", b"m")
    assert await drain(fresh, "q") == [b"m"]
