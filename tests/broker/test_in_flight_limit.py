"""In flight: a bounded number of held messages, with an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.errors import InFlightLimit

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


@pytest.fixture
async def queue(broker: Broker) -> str:
    await broker.create_queue("q", max_in_flight=5, visibility_timeout=30)
    await broker.publish("q", [b"m"] * 20)
    return "q"


async def test_no_more_than_the_limit_are_handed_out(broker: Broker, other: Broker, queue: str) -> None:
    assert len(await broker.claim(queue, 3)) == 3
    assert len(await other.claim(queue, 9)) == 2
    for one in (broker, other):
        with pytest.raises(InFlightLimit, match="'q' has 5"):
            await one.claim(queue)


async def test_settling_or_releasing_makes_room(broker: Broker, other: Broker, queue: str) -> None:
    one, two, *_ = await broker.claim(queue, 5)
    await one.settle()
    await two.release(delay=100)
    assert len(await other.claim(queue, 9)) == 2


async def test_a_hold_that_ran_out_makes_room(rig: Rig, broker: Broker, other: Broker, queue: str) -> None:
    await broker.claim(queue, 5)
    await rig.advance(31)
    assert len(await other.claim(queue, 9)) == 5


async def test_the_limit_can_be_changed_while_in_use(broker: Broker, other: Broker, queue: str) -> None:
    await other.claim(queue, 5)
    await broker.alter_queue(queue, max_in_flight=8)
    assert len(await other.claim(queue, 9)) == 3
    await broker.alter_queue(queue, max_in_flight=2)
    with pytest.raises(InFlightLimit, match="2"):
        await other.claim(queue)


async def test_a_waiting_claim_is_told_as_well(broker: Broker, queue: str) -> None:
    await broker.claim(queue, 5)
    with pytest.raises(InFlightLimit):
        await broker.claim(queue, wait=10)


async def test_the_default_limit_is_120_000(broker: Broker) -> None:
    await broker.create_queue("d")
    assert (await broker.show_queue("d")).settings["max_in_flight"] == 120_000


async def test_each_subscription_has_its_own_limit(broker: Broker) -> None:
    await broker.create_topic("t")
    for name in ("s1", "s2"):
        await broker.create_subscription(name, "t", max_in_flight=2)
    await broker.publish("t", [b"m"] * 4)
    for name in ("s1", "s2"):
        assert len(await broker.claim(name, 4)) == 2
