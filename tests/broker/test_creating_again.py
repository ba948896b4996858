"""Creating what exists, with the same settings, succeeds; with others it is refused."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import rowlock
from rowlock.errors import AlreadyExists

from .rig import DEADLINE_SECONDS, clear, drain, stored, trim

if TYPE_CHECKING:
    from rowlock import Broker


async def test_a_dead_letter_queue_over_several_lanes(sqlite_url: str) -> None:
    """It was given a partition in every lane of its sources, which nobody asked for."""
    async with rowlock.open(sqlite_url, lanes=3) as broker:
        await broker.create_queue("dead")
        await broker.create_queue("jobs", partitions=3, max_receives=3, dead_letter="dead")
        await broker.create_queue("dead")
        assert (await broker.show_queue("dead")).settings["partitions"] == 3
        await broker.create_queue("dead", partitions=3)
        with pytest.raises(AlreadyExists, match="partitions is 1, not 2"):
            await broker.create_queue("dead", partitions=2)


async def test_a_creation_that_lost_to_a_deletion_leaves_no_cursor(broker: Broker, other: Broker) -> None:
    """A cursor that nobody knows would hold back retention for ever."""
    await broker.create_topic("t")
    administer = broker._engine.administer
    put = administer._put_cursors
    reached, released = asyncio.Event(), asyncio.Event()

    async def slowly(*args: Any, **options: Any) -> None:
        reached.set()
        await released.wait()
        await put(*args, **options)

    administer._put_cursors = slowly  # type: ignore[method-assign]
    creating = asyncio.create_task(broker.create_subscription("s", "t"))
    await asyncio.wait_for(reached.wait(), DEADLINE_SECONDS)
    await other.delete_subscription("s")
    await other.create_subscription("s", "t")
    administer._put_cursors = put  # type: ignore[method-assign]
    released.set()
    await asyncio.gather(creating, return_exceptions=True)
    await clear(broker)
    await other.publish("t", [b"m"] * 5)
    await drain(other, "s")
    await trim(other, "t")
    assert await stored(other, "t") == [5]


async def test_a_creation_that_died_halfway_does_not_hold_back_retention(broker: Broker, other: Broker) -> None:
    await broker.create_topic("t")
    await broker.create_subscription("done", "t")
    await _die_creating(broker, "s")
    await other.publish("t", [b"m"] * 20)
    await drain(other, "done")
    await trim(other, "t")
    await drain(other, "s")
    await trim(other, "t")
    assert await stored(other, "t") == [20]


async def test_a_name_can_be_used_again_though_a_deletion_met_a_creation(broker: Broker, other: Broker) -> None:
    """The deletion was about to remove the topic when the queue was created again: half a queue is left."""
    await broker.create_queue("q")
    administer = broker._engine.administer
    remains = administer._remains
    reached, released = asyncio.Event(), asyncio.Event()
    calls = count(1)

    async def slowly(left: Any) -> Any:
        if next(calls) == 2:
            reached.set()
            await released.wait()
        return await remains(left)

    administer._remains = slowly  # type: ignore[method-assign]
    deleting = asyncio.create_task(broker.delete_queue("q"))
    await asyncio.wait_for(reached.wait(), DEADLINE_SECONDS)
    creating = asyncio.create_task(other.create_queue("q"))
    await asyncio.wait([creating], timeout=DEADLINE_SECONDS)
    released.set()
    await asyncio.gather(creating, deleting, return_exceptions=True)
    await other.create_queue("q")
    await other.publish("q", b"m")
    assert await drain(other, "q") == [b"m"]
    await other.delete_queue("q")
    await other.create_queue("q")


async def _die_creating(broker: Broker, name: str) -> None:
    """The catalog has the subscription, and the lanes do not."""
    administer = broker._engine.administer
    put = administer._put_cursors

    async def die(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    administer._put_cursors = die  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await broker.create_subscription(name, "t")
    administer._put_cursors = put  # type: ignore[method-assign]
