"""Deduplication: a second message under the same id within the window is not stored again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowlock import Message

from .rig import drain, sweep

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


def once(body: bytes, name: str = "d") -> Message:
    return Message(body, deduplication_id=name)


async def test_the_second_is_answered_with_the_first(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    [first] = await broker.publish("q", once(b"1"))
    [second] = await other.publish("q", once(b"2"))
    assert (second.id, second.sequence, second.duplicate) == (first.id, first.sequence, True)
    assert not first.duplicate
    assert await drain(broker, "q") == [b"1"]


async def test_also_after_the_first_was_consumed(broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", once(b"1"))
    await drain(broker, "q")
    [second] = await broker.publish("q", once(b"2"))
    assert second.duplicate
    assert await broker.claim("q") == []


async def test_also_after_a_crash(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", once(b"1"))
    await rig.crash(broker)
    after = await rig.open()
    [second] = await after.publish("q", once(b"2"))
    assert second.duplicate


async def test_twins_in_one_batch_are_stored_once(broker: Broker) -> None:
    await broker.create_queue("q")
    first, other_id, second = await broker.publish("q", [once(b"1"), once(b"x", "e"), once(b"2")])
    assert (second.id, second.sequence, second.duplicate) == (first.id, first.sequence, True)
    assert not other_id.duplicate
    assert await drain(broker, "q") == [b"1", b"x"]


async def test_many_at_once_store_one(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    answers = await asyncio.gather(*((broker, other)[at % 2].publish("q", once(b"m")) for at in range(20)))
    assert sum(not one.duplicate for [one] in answers) == 1
    assert len({one.id for [one] in answers}) == 1
    assert await drain(broker, "q") == [b"m"]


@pytest.mark.parametrize("window", [1, 60, 300, 3600])
async def test_after_the_window_it_is_stored_again(rig: Rig, broker: Broker, other: Broker, window: int) -> None:
    await broker.create_queue("q", deduplication_window=window)
    await broker.publish("q", once(b"1"))
    await rig.advance(window - 0.5)
    assert (await other.publish("q", once(b"2")))[0].duplicate
    await rig.advance(0.7)
    assert not (await other.publish("q", once(b"3")))[0].duplicate
    assert (await broker.publish("q", once(b"4")))[0].duplicate
    assert await drain(broker, "q") == [b"1", b"3"]


async def test_ids_that_only_look_alike_are_different(broker: Broker) -> None:
    await broker.create_queue("q")
    names = ["a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "😀", "😁", "x" * 128]
    answers = await broker.publish("q", [once(name.encode(), name) for name in names])
    assert [one.duplicate for one in answers] == [False] * len(names)
    again = await broker.publish("q", [once(b"again", name) for name in names])
    assert [one.id for one in again] == [one.id for one in answers]
    assert all(one.duplicate for one in again)


async def test_queues_do_not_share_ids(broker: Broker) -> None:
    for name in ("q", "r"):
        await broker.create_queue(name)
        assert not (await broker.publish(name, once(b"m")))[0].duplicate


async def test_a_delayed_message_is_remembered_while_it_waits(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    delayed = Message(b"1", deduplication_id="d", delay=30)
    [first] = await broker.publish("q", delayed)
    [second] = await broker.publish("q", delayed)
    assert (second.id, second.duplicate) == (first.id, True)
    await rig.advance(31)
    await sweep(broker)
    assert await drain(broker, "q") == [b"1"]
