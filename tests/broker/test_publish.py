"""Publish: what is stored, what is refused, and that nothing is dropped silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.errors import MessageTooLarge, NotFound, PublishRefused

from .conftest import three_lanes
from .rig import bodies, drain

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


async def test_a_message_keeps_body_key_and_attributes(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    attributes = {"text": "ä€😀", "whole": -(2**63), "real": 0.5, "flag": True, "raw": b"\0\xff"}
    await broker.publish("q", Message(b"\0\x01\xff", key="Kunde-ä😀", attributes=attributes))  # type: ignore[arg-type]
    [message] = await other.claim("q")
    assert (message.body, message.key, message.attributes) == (b"\0\x01\xff", "Kunde-ä😀", attributes)


async def test_sequences_are_dense_over_batches_and_brokers(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    sequences: list[int | None] = []
    for publisher, count in ((broker, 3), (other, 1), (broker, 2), (other, 4)):
        sequences += [one.sequence for one in await publisher.publish("q", [b"m"] * count)]
    assert sequences == list(range(1, 11))


async def test_a_published_message_is_there_for_a_broker_that_opens_after_a_crash(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    published = await broker.publish("q", [b"a", b"b"])
    await rig.crash(broker)
    claimed = await (await rig.open()).claim("q", 10)
    assert [(one.id, one.body) for one in claimed] == [(published[0].id, b"a"), (published[1].id, b"b")]


async def test_ids_are_unique_and_those_that_consumers_see(broker: Broker) -> None:
    await broker.create_queue("q")
    published = await broker.publish("q", [b"m"] * 200)
    claimed = await broker.claim("q", 200)
    assert [one.id for one in claimed] == [one.id for one in published]
    assert len({one.id for one in published}) == 200


async def test_a_batch_with_a_bad_entry_stores_the_others_and_names_it(broker: Broker) -> None:
    await broker.create_queue("q", max_message_bytes=10)
    with pytest.raises(PublishRefused, match="number 1") as refused:
        await broker.publish("q", [b"good", b"x" * 11, b"fine"])
    [(index, error)] = refused.value.refused
    assert (index, type(error)) == (1, MessageTooLarge)
    assert "11" in str(error)
    assert "10" in str(error)
    assert [one is None for one in refused.value.published] == [False, True, False]
    assert await drain(broker, "q") == [b"good", b"fine"]


async def test_the_size_is_that_of_body_key_and_attributes_together(broker: Broker) -> None:
    await broker.create_queue("q", max_message_bytes=10)
    await broker.publish("q", Message(b"12345", key="678", attributes={"a": "b"}))
    with pytest.raises(PublishRefused, match="11 bytes"):
        await broker.publish("q", Message(b"12345", key="678", attributes={"a": "bc"}))


async def test_four_kib_are_allowed_by_default_and_a_mebibyte_by_setting(broker: Broker) -> None:
    await broker.create_queue("small")
    await broker.create_queue("large", max_message_bytes=1024 * 1024)
    await broker.publish("small", b"x" * 4096)
    with pytest.raises(PublishRefused, match="4096"):
        await broker.publish("small", b"x" * 4097)
    await broker.publish("large", b"x" * 1024 * 1024)
    [message] = await broker.claim("large")
    assert message.body == b"x" * 1024 * 1024


async def test_many_large_messages_are_published_and_claimed_in_bounded_steps(broker: Broker) -> None:
    await broker.create_queue("q", max_message_bytes=1024 * 1024)
    await broker.publish("q", [bytes([at]) * 1024 * 1024 for at in range(6)])
    found: list[bytes] = []
    while messages := await broker.claim("q", 100):
        assert sum(len(one.body) for one in messages) <= 4 * 1024 * 1024
        found += bodies(messages)
    assert [body[0] for body in found] == list(range(6))


async def test_a_batch_of_nothing_stores_nothing(broker: Broker) -> None:
    await broker.create_queue("q")
    assert await broker.publish("q", []) == []


async def test_publishing_to_what_does_not_exist_is_refused_by_name(broker: Broker) -> None:
    with pytest.raises(NotFound, match="'nowhere'"):
        await broker.publish("nowhere", b"m")


@three_lanes
async def test_keys_stay_in_their_partition_and_batches_without_keys_are_all_stored(broker: Broker) -> None:
    await broker.create_queue("q", partitions=6)
    keyed = await broker.publish("q", [Message(b"m", key=f"k{at % 5}") for at in range(50)])
    places = {(f"k{at % 5}", one.partition) for at, one in enumerate(keyed)}
    assert len(places) == 5
    plain = await broker.publish("q", [b"n"] * 20)
    assert len(plain) == 20
    assert sorted(await drain(broker, "q")) == [b"m"] * 50 + [b"n"] * 20


async def test_a_queue_is_created_on_first_use_where_that_is_set(rig: Rig) -> None:
    creating = await rig.open(create_on_use=True)
    await creating.publish("new", b"m")
    assert await creating.claim("other-new") == []
    assert [one.name for one in await creating.queues()] == ["new", "other-new"]
    assert await drain(creating, "new") == [b"m"]
