"""Depth: how much there is, by arithmetic, whatever the backlog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock import Depth, Message

from .conftest import three_lanes
from .rig import drain, sweep

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


def counts(depth: Depth) -> tuple[int, int, int]:
    return depth.ready, depth.in_flight, depth.delayed


async def test_ready_in_flight_and_delayed_add_up(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", [b"m"] * 10 + [Message(b"later", delay=60)] * 3)
    assert counts(await other.depth("q")) == (10, 0, 3)
    held = await broker.claim("q", 4)
    assert counts(await other.depth("q")) == (6, 4, 3)
    await held[0].settle()
    await held[1].release()
    await held[2].release(delay=50)
    assert counts(await other.depth("q")) == (7, 1, 4)
    assert (await other.depth("q")).total == 12
    await rig.advance(31)
    assert counts(await other.depth("q")) == (8, 0, 4)
    await rig.advance(31)
    await sweep(broker)
    assert counts(await other.depth("q")) == (12, 0, 0)
    assert len(await drain(other, "q")) == 12
    assert await broker.depth("q") == Depth(0, 0, 0, 0, None)


async def test_the_age_is_that_of_the_oldest_that_is_not_done(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    assert (await broker.depth("q")).oldest_age is None
    await broker.publish("q", b"1")
    await rig.advance(100)
    await broker.publish("q", b"2")
    await rig.advance(10)
    age = (await other.depth("q")).oldest_age
    assert age is not None
    assert 109 < age < 115
    [first] = await broker.claim("q")
    age = (await other.depth("q")).oldest_age
    assert age is not None
    assert 109 < age < 115
    await first.settle()
    age = (await other.depth("q")).oldest_age
    assert age is not None
    assert 9 < age < 15


@three_lanes
async def test_partitions_are_added_up(broker: Broker) -> None:
    await broker.create_queue("q", partitions=6)
    await broker.publish("q", [Message(b"m", key=f"k{at}") for at in range(50)])
    assert counts(await broker.depth("q")) == (50, 0, 0)
    held = await broker.claim("q", 5)
    assert counts(await broker.depth("q")) == (50 - len(held), len(held), 0)
    shown = await broker.show_queue("q")
    assert sum(one["lag"] for one in shown.partitions) == 50
    assert shown.depth is not None
    assert shown.depth.total == 50


async def test_each_subscription_has_its_own(broker: Broker) -> None:
    await broker.create_topic("t")
    for name in ("s1", "s2"):
        await broker.create_subscription(name, "t")
    await broker.publish("t", [b"m"] * 5)
    await drain(broker, "s1")
    assert ((await broker.depth("s1")).total, (await broker.depth("s2")).total) == (0, 5)


async def test_a_backlog_is_not_counted_row_by_row(broker: Broker, other: Broker) -> None:
    """The statements that a depth takes touch a bounded number of rows: ten times the backlog, the same statements."""
    await broker.create_queue("q")
    for _ in range(3):
        await broker.publish("q", [b"m"] * 10_000)
    assert (await other.depth("q")).ready == 30_000
    await broker.claim("q", 1000)
    assert counts(await other.depth("q")) == (29_000, 1000, 0)
    await broker.purge("q")
    assert (await other.depth("q")).total == 0
