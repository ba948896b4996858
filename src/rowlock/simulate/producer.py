"""A producer: publishes batches of messages of its own making, and writes down what it was told of them."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from rowlock.errors import OutcomeUnknown, PublishRefused, RowlockError, Unavailable
from rowlock.model import Message
from rowlock.simulate import records
from rowlock.simulate.options import DUPLICATES
from rowlock.simulate.streams import KEYS_COUNT, Stream

if TYPE_CHECKING:
    from rowlock.simulate.host import Host

BATCH_MESSAGES = 12
FILLING_BYTES = 400
PAUSE_SECONDS = 0.03
POISON = "poison"
TWICE_SHARE = 0.2


class Producer:
    """One producer of a broker process."""

    def __init__(self, host: Host, name: str):
        self._host = host
        self._name = name
        self._random = Random(f"{host.spec.seed}-{name}")
        self._made = 0

    async def run(self) -> None:
        while not self._host.ending.is_set():
            await self._host.flowing.wait()
            await self._publish_something()
            await asyncio.sleep(self._random.uniform(0, 2 * PAUSE_SECONDS))

    async def _publish_something(self) -> None:
        published = self._host.streams.published
        stream = self._random.choices(published, [one.weight for one in published])[0]
        batch = [self._make(stream) for _ in range(self._random.randint(1, BATCH_MESSAGES))]
        if DUPLICATES in self._host.spec.faults and self._random.random() < TWICE_SHARE:
            await self._publish_twice(stream, batch)
        else:
            await self._publish(stream, batch)

    def _make(self, stream: Stream) -> records.Outgoing:
        self._made += 1
        poisoned = self._random.random() < stream.poisoned
        message = records.Outgoing(f"{POISON if poisoned else 'message'}/{self._name}/{self._made}")
        if stream.keyed:
            message.key = f"key-{self._random.randrange(KEYS_COUNT)}"
        if stream.expires_in is not None:
            message.expires_in = round(self._random.uniform(*stream.expires_in), 3)
        if self._random.random() < stream.delayed:
            message.delay = round(self._random.uniform(0.1, 1.5), 3)
        return message

    async def _publish_twice(self, stream: Stream, batch: list[records.Outgoing]) -> None:
        """As after an answer that was lost; at times at once, and in the opposite order."""
        for message in batch:
            message.deduplication_id = message.name
        again = batch[::-1]
        if self._random.random() < 0.5:
            await asyncio.gather(self._publish(stream, batch), self._publish(stream, again))
        else:
            await self._publish(stream, batch)
            await self._publish(stream, again)

    async def _publish(self, stream: Stream, batch: list[records.Outgoing]) -> None:
        recorder = self._host.recorder
        call = recorder.next_call()
        messages = [self._message(one) for one in batch]
        recorder.write(records.Publishing(call, records.now(), stream.topic, batch))
        outcome, stored = await self._send(stream.topic, messages)
        recorder.write(records.Published(call, records.now(), outcome, stored))
        self._host.progress.published += sum(one is not None and not one.duplicate for one in stored)

    async def _send(self, topic: str, messages: list[Message]) -> tuple[str, list[records.StoredAs | None]]:
        try:
            published = await self._host.broker.publish(topic, messages)
        except OutcomeUnknown:
            return records.UNKNOWN, []
        except Unavailable:
            return records.REFUSED, []
        except PublishRefused as error:
            self._host.report(error)
            return records.UNKNOWN, []
        except RowlockError as error:
            self._host.report(error)
            return records.REFUSED, []
        return records.OK, [records.StoredAs(one.id, one.partition, one.sequence, one.duplicate) for one in published]

    def _message(self, one: records.Outgoing) -> Message:
        body = records.body_of(one.name, self._random.randrange(FILLING_BYTES))
        return Message(body, one.key, expires_in=one.expires_in, delay=one.delay, deduplication_id=one.deduplication_id)
