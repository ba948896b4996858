"""Lanes: a transaction has one lane's tables only, and a queue's whole life works over three of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Message

from .rig import clear, drain, eventually, stored, sweep, trim

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig

pytestmark = pytest.mark.parametrize("lanes", [3])

TABLES = {"sqlite": "lane1_messages", "postgresql": "rowlock_lane_1.messages", "mariadb": "rowlock_lane1_messages"}


async def test_the_guard_sees_a_statement_that_uses_another_lane(rig: Rig, broker: Broker) -> None:
    """Every test of this suite fails when it does."""
    dialect = broker._engine.store.dialect
    async with broker._engine.lanes.use(0) as lane:
        connection: Any = lane._connection  # type: ignore[attr-defined]
        statement = f"SELECT 1 FROM {TABLES[dialect]}"
        if dialect == "sqlite":
            connection.rows(statement)
        elif dialect == "postgresql":
            await connection.fetch(statement)
        else:
            await connection.rows(statement)
    await eventually(lambda: was_seen(rig))
    [trespass] = rig.trespasses
    assert trespass.startswith("lane 0 used lane 1")
    rig.trespasses.clear()


async def test_partitions_go_to_the_lanes_that_have_the_fewest(broker: Broker) -> None:
    await broker.create_topic("t", partitions=3)
    await broker.create_topic("u", partitions=6)
    for name, each in (("t", 1), ("u", 2)):
        shown = await broker.show_topic(name)
        used = [one["lane"] for one in shown.partitions]
        assert [used.count(lane) for lane in range(3)] == [each] * 3


async def test_the_whole_life_of_a_queue(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q", partitions=4, max_receives=2, dead_letter="dead", visibility_timeout=30)
    batch = [Message(b"%d" % at, key=f"k{at}", delay=10 if at % 5 == 0 else None) for at in range(50)]
    await other.publish("q", batch)
    await rig.advance(11)
    await sweep(broker)
    held = [one for _ in range(3) for one in await broker.claim("q", 100)]
    assert len(held) == 50
    await other.extend([one.receipt for one in held[:10]], 300)
    await broker.release(held[10:20])
    await broker.settle(held[20:])
    again = [one for _ in range(3) for one in await other.claim("q", 100)]
    assert [one.receives for one in again] == [2] * 10
    await rig.advance(31)
    for one in (broker, other):
        await sweep(one)
    task = await broker.redrive("dead")
    await eventually(lambda: is_done(broker, task.id))
    assert (await broker.redrives())[0].moved == 10
    assert len(await drain(other, "q")) == 10
    await other.settle(held[:10])
    await trim(broker, "q")
    assert len(await stored(broker, "q")) == 4
    await broker.seek("q", "latest")
    await broker.purge("q")
    await broker.alter_queue("q", partitions=6, visibility_timeout=20)
    await broker.alter_queue("q", max_receives=None, dead_letter=None)
    for name in ("q", "dead"):
        await broker.delete_queue(name)
    await clear(broker)
    assert await broker.topics() == []


async def was_seen(rig: Rig) -> bool:
    return bool(rig.trespasses)


async def is_done(broker: Broker, task: int) -> bool:
    return all(one.state == "completed" for one in await broker.redrives() if one.id == task)
