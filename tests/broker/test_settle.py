"""Settle, extend, release: by the holder only, with receipts that nobody can forge."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from rowlock.errors import InvalidArgument, StaleReceipt

from .conftest import three_lanes
from .rig import bodies

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


@pytest.fixture
async def queue(broker: Broker) -> str:
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", [b"%d" % at for at in range(10)])
    return "q"


async def test_a_settled_message_never_comes_again(rig: Rig, broker: Broker, other: Broker, queue: str) -> None:
    [message] = await broker.claim(queue)
    await message.settle()
    await rig.advance(3600)
    assert b"0" not in bodies(await other.claim(queue, 100))
    assert b"0" not in bodies(await broker.claim(queue, 100))


async def test_settling_twice_is_no_error(broker: Broker, other: Broker, queue: str) -> None:
    [message] = await broker.claim(queue)
    await message.settle()
    await message.settle()
    await other.settle([message.receipt])


async def test_a_late_settle_counts_while_nobody_else_holds_the_message(rig: Rig, broker: Broker, queue: str) -> None:
    [message] = await broker.claim(queue)
    await rig.advance(31)
    await message.settle()
    assert b"0" not in bodies(await broker.claim(queue, 100))


async def test_a_stale_settle_changes_nothing(rig: Rig, broker: Broker, other: Broker, queue: str) -> None:
    [stale] = await broker.claim(queue)
    await rig.advance(31)
    [held] = await other.claim(queue)
    assert held.id == stale.id
    with pytest.raises(StaleReceipt, match="1 of 1"):
        await stale.settle()
    with pytest.raises(StaleReceipt):
        await stale.extend(60)
    with pytest.raises(StaleReceipt):
        await stale.release()
    await rig.advance(29)
    await held.settle()


async def test_two_callers_of_one_cycle_do_not_settle_each_others(broker: Broker, queue: str) -> None:
    """They share a claim number; the receipt names the sequence as well."""
    import asyncio

    [one], [two] = await asyncio.gather(broker.claim(queue), broker.claim(queue))
    assert one.receipt != two.receipt
    await one.settle()
    await two.extend(60)


async def test_extend_holds_longer_and_may_hold_shorter(rig: Rig, broker: Broker, other: Broker, queue: str) -> None:
    first, second = await broker.claim(queue, 2)
    await first.extend(100)
    await second.extend(5)
    await rig.advance(6)
    assert bodies(await other.claim(queue, 1)) == [b"1"]
    await rig.advance(60)
    assert b"0" not in bodies(await other.claim(queue, 100))
    await rig.advance(40)
    assert b"0" in bodies(await other.claim(queue, 100))


async def test_extending_what_was_settled_or_ran_out_is_refused(rig: Rig, broker: Broker, queue: str) -> None:
    first, second = await broker.claim(queue, 2)
    await first.settle()
    with pytest.raises(StaleReceipt):
        await first.extend(10)
    await rig.advance(31)
    with pytest.raises(StaleReceipt):
        await second.extend(10)


async def test_a_released_message_comes_at_once_and_its_receipt_is_void(
    broker: Broker, other: Broker, queue: str
) -> None:
    [message] = await broker.claim(queue)
    await message.release()
    [again] = await other.claim(queue)
    assert (again.id, again.receives) == (message.id, 2)
    with pytest.raises(StaleReceipt):
        await message.settle()


async def test_a_message_released_with_a_delay_waits_for_it(rig: Rig, broker: Broker, queue: str) -> None:
    [message] = await broker.claim(queue)
    await message.release(delay=60)
    await broker.settle(await broker.claim(queue, 100))
    await rig.advance(59)
    assert await broker.claim(queue) == []
    await rig.advance(1.1)
    assert bodies(await broker.claim(queue)) == [b"0"]


async def test_a_release_follows_the_subscriptions_fixed_backoff(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("b", backoff={"kind": "fixed", "seconds": 20})
    await broker.publish("b", b"m")
    for _ in range(2):
        [message] = await broker.claim("b")
        await message.release()
        await rig.advance(19)
        assert await broker.claim("b") == []
        await rig.advance(1.1)


async def test_an_exponential_backoff_grows_with_every_receive_up_to_its_longest(rig: Rig, broker: Broker) -> None:
    backoff = {"kind": "exponential", "seconds": 10, "factor": 3, "max_seconds": 60, "jitter": 0}
    await broker.create_queue("b", backoff=backoff)
    await broker.publish("b", b"m")
    for seconds in (10, 30, 60, 60):
        [message] = await broker.claim("b")
        await message.release()
        await rig.advance(seconds - 1)
        assert await broker.claim("b") == []
        await rig.advance(1.1)


async def test_jitter_only_shortens_a_backoff(rig: Rig, broker: Broker) -> None:
    backoff = {"kind": "exponential", "seconds": 100, "jitter": 0.5}
    await broker.create_queue("b", backoff=backoff)
    await broker.publish("b", [b"m"] * 50)
    await broker.release(await broker.claim("b", 50))
    await rig.advance(49)
    assert await broker.claim("b", 50) == []
    await rig.advance(26)
    assert 0 < len(await broker.claim("b", 50)) < 50
    await rig.advance(26)
    assert len(await broker.claim("b", 50)) > 0


@three_lanes
async def test_a_batch_settles_the_good_ones_and_says_how_many_were_stale(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    from rowlock import Message

    await broker.create_queue("p", partitions=3)
    await broker.publish("p", [Message(b"m", key=f"k{at}") for at in range(30)])
    mine = [one for _ in range(3) for one in await broker.claim("p", 30)]
    assert len(mine) == 30
    await mine[0].release()
    [taken] = [one for _ in range(3) for one in await other.claim("p", 30)]
    with pytest.raises(StaleReceipt, match="1 of 30"):
        await broker.settle([one.receipt for one in mine])
    await rig.advance(31)
    assert [one.id for _ in range(3) for one in await broker.claim("p", 30)] == [taken.id]


async def test_receipts_of_several_queues_go_in_one_batch(rig: Rig, broker: Broker, queue: str) -> None:
    await broker.create_queue("r")
    await broker.publish("r", b"m")
    held = await broker.claim(queue, 2) + await broker.claim("r")
    await broker.extend(held, 90)
    await broker.settle(held)
    await rig.advance(100)
    assert await broker.claim("r") == []


async def test_a_forged_or_foreign_receipt_is_refused(broker: Broker, queue: str) -> None:
    [message] = await broker.claim(queue)
    sealed = bytearray(base64.urlsafe_b64decode(message.receipt))
    sealed[20] ^= 1
    for forged in (base64.urlsafe_b64encode(bytes(sealed)).decode(), "", "nonsense", message.receipt[:-4]):
        with pytest.raises(InvalidArgument, match="not a receipt"):
            await broker.settle([forged])
    await message.settle()


async def test_a_receipt_of_a_deleted_queue_is_stale(broker: Broker, other: Broker, queue: str) -> None:
    [message] = await broker.claim(queue)
    await other.delete_queue(queue)
    with pytest.raises(StaleReceipt):
        await message.settle()
