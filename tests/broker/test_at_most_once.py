"""At most once: a message is done when it is handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.errors import StaleReceipt

from .rig import bodies

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


@pytest.fixture
async def queue(broker: Broker) -> str:
    await broker.create_queue("q", delivery="at-most-once", visibility_timeout=5)
    await broker.publish("q", [b"1", b"2", b"3"])
    return "q"


async def test_a_message_is_handed_out_once_and_never_again(
    rig: Rig, broker: Broker, other: Broker, queue: str
) -> None:
    assert bodies(await broker.claim(queue, 2)) == [b"1", b"2"]
    await rig.advance(3600)
    assert bodies(await other.claim(queue, 9)) == [b"3"]
    assert await broker.claim(queue, 9) == []
    assert (await other.depth(queue)).total == 0


async def test_not_even_after_a_crash(rig: Rig, broker: Broker, queue: str) -> None:
    await broker.claim(queue, 2)
    await rig.crash(broker)
    after = await rig.open()
    assert bodies(await after.claim(queue, 9)) == [b"3"]


async def test_a_settle_is_no_error_and_a_hold_there_is_none(broker: Broker, queue: str) -> None:
    one, two = await broker.claim(queue, 2)
    assert one.receives == 1
    await one.settle()
    with pytest.raises(StaleReceipt):
        await two.extend(10)
    with pytest.raises(StaleReceipt):
        await two.release()


async def test_in_order_no_key_is_ever_busy(broker: Broker) -> None:
    await broker.create_queue("o", delivery="at-most-once", order="key")
    await broker.publish("o", [Message(b"1", key="k"), Message(b"2", key="k")])
    assert bodies(await broker.claim("o")) == [b"1"]
    assert bodies(await broker.claim("o")) == [b"2"]
