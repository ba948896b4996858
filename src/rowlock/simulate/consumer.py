"""A consumer: claims, works, settles; where faults are asked for it dies, stalls, and settles late."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from rowlock.embedded import ClaimedMessage
from rowlock.errors import InFlightLimit, OutcomeUnknown, RowlockError, StaleReceipt, Unavailable
from rowlock.simulate import records
from rowlock.simulate.options import CONSUMERS
from rowlock.simulate.producer import POISON

if TYPE_CHECKING:
    from rowlock.simulate.host import Host

CLAIM_MESSAGES = 20
WAIT_SECONDS = 0.4
TIMEOUT_SECONDS = (1.5, 3.0)
WORK_SECONDS = 0.01
PAUSE_SECONDS = 0.01
DEATHS_SHARE = 0.02
STALLS_SHARE = 0.03
EXTENDED_SHARE = 0.1
RELEASED_SHARE = 0.05
SETTLED_TWICE_SHARE = 0.05


class _Answer(NamedTuple):
    """What a claim handed out."""

    call: int
    subscription: str
    messages: list[ClaimedMessage]
    timeout: float


class Consumer:
    """One consumer of a broker process."""

    def __init__(self, host: Host, name: str):
        self._host = host
        self._name = name
        self._random = Random(f"{host.spec.seed}-{name}")

    async def run(self) -> None:
        while not self._host.finishing.is_set():
            subscription = self._random.choice(self._host.streams.subscriptions)
            answer = await self._claim(subscription)
            if answer is not None:
                await self._use(answer)

    async def _claim(self, subscription: str) -> _Answer | None:
        timeout = round(self._random.uniform(*TIMEOUT_SECONDS), 3)
        asked = records.now()
        count = self._random.randint(1, CLAIM_MESSAGES)
        wait = 0 if self._host.ending.is_set() else self._random.choice((0, WAIT_SECONDS))
        try:
            claimed = await self._host.broker.claim(subscription, count, visibility_timeout=timeout, wait=wait)
        except (Unavailable, OutcomeUnknown, InFlightLimit):
            return None
        except RowlockError as error:
            self._host.report(error)
            return None
        if not claimed:
            await asyncio.sleep(PAUSE_SECONDS)
            return None
        call = self._host.recorder.next_call()
        told = records.HandedOut(
            call, subscription, self._name, asked, records.now(), timeout, list(map(_told, claimed))
        )
        self._host.recorder.write(told)
        self._host.progress.claimed += len(claimed)
        return _Answer(call, subscription, claimed, timeout)

    async def _use(self, answer: _Answer) -> None:
        await asyncio.sleep(self._random.uniform(0, 2 * WORK_SECONDS))
        chance = self._random.random()
        if CONSUMERS not in self._host.spec.faults or self._host.ending.is_set():
            chance = 1.0
        if chance < DEATHS_SHARE:
            self._host.happened(records.DIED, self._name)
        elif chance < DEATHS_SHARE + STALLS_SHARE:
            self._host.happened(records.STALLED, self._name)
            await self._settle_late(answer)
        else:
            await self._finish_all(answer)

    async def _settle_late(self, answer: _Answer) -> None:
        """Its hold runs out; it claims again, maybe the same messages, and only then means to end the old ones."""
        await asyncio.sleep(answer.timeout + self._random.choice((0.01, 0.05, 0.8)))
        again = await self._claim(answer.subscription)
        await self._finish_all(answer)
        if again is not None:
            await self._finish_all(again)

    async def _finish_all(self, answer: _Answer) -> None:
        dead_letters = self._host.streams.read_by(answer.subscription).weight == 0
        await asyncio.gather(*(self._finish(answer, index, dead_letters) for index in range(len(answer.messages))))

    async def _finish(self, answer: _Answer, index: int, dead_letters: bool) -> None:
        """What becomes of one message."""
        message = answer.messages[index]
        if message.body.startswith(POISON.encode()) and not dead_letters:
            await self._act(records.RELEASE, answer, index)
            return
        if self._random.random() < EXTENDED_SHARE:
            await self._act(records.EXTEND, answer, index, answer.timeout + 1)
        if self._random.random() < RELEASED_SHARE:
            await self._act(records.RELEASE, answer, index, self._random.choice((0.0, 0.2)))
            return
        for _ in range(2 if self._random.random() < SETTLED_TWICE_SHARE else 1):
            await self._act(records.SETTLE, answer, index)

    async def _act(self, verb: str, answer: _Answer, index: int, seconds: float = 0.0) -> None:
        recorder = self._host.recorder
        call = recorder.next_call()
        recorder.write(records.Acting(call, records.now(), verb, answer.call, index, seconds))
        outcome = await self._told_of(verb, answer.messages[index], seconds)
        recorder.write(records.Acted(call, records.now(), outcome))
        if verb == records.SETTLE and outcome == records.OK:
            self._host.progress.settled += 1

    async def _told_of(self, verb: str, message: ClaimedMessage, seconds: float) -> str:
        try:
            if verb == records.SETTLE:
                await message.settle()
            elif verb == records.EXTEND:
                await message.extend(seconds)
            else:
                await message.release(seconds)
        except StaleReceipt:
            return records.STALE
        except Unavailable:
            return records.REFUSED
        except OutcomeUnknown:
            return records.UNKNOWN
        except RowlockError as error:
            self._host.report(error)
            return records.UNKNOWN
        return records.OK


def _told(message: ClaimedMessage) -> records.Handed:
    name, intact = records.name_in(message.body)
    reason = message.origin.reason if message.origin else None
    return records.Handed(name, message.id, message.sequence, message.receives, message.key, intact, reason)
