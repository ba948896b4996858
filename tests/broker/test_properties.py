"""Two brokers on one file do random things, also at once, and one of them dies now and then: the invariants hold.

Numbers in the checks are those of docs/invariants.md.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from rowlock import Message
from rowlock.errors import StaleReceipt

from .rig import Rig, trim

if TYPE_CHECKING:
    from rowlock import Broker, ClaimedMessage

KEYS = "abc"
SLACK_SECONDS = 2
"""Real time goes on while the test runs."""

which = st.integers(0, 1)
pick = st.integers(0, 10_000)
steps = st.one_of(
    st.tuples(st.just("publish"), which, st.lists(st.sampled_from(KEYS), min_size=1, max_size=6)),
    st.tuples(st.just("claim"), which, st.integers(1, 5), st.sampled_from([0, 20, 60])),
    st.tuples(st.just("claim twice"), st.integers(1, 5), st.sampled_from([20, 60])),
    st.tuples(st.just("settle"), which, pick),
    st.tuples(st.just("extend"), which, pick, st.sampled_from([20, 90])),
    st.tuples(st.just("release"), which, pick, st.sampled_from([0, 30])),
    st.tuples(st.just("settle"), which, pick),
    st.tuples(st.just("wait"), st.sampled_from([5, 25, 70])),
    st.tuples(st.just("wait"), st.just(70)),
    st.tuples(st.just("crash"), which),
    st.tuples(st.just("trim"), which),
)


class Held:
    """What the model knows of a message that was handed out."""

    def __init__(self, message: ClaimedMessage, until: float):
        self.message = message
        self.receipt = message.receipt
        self.until = until
        """Nobody else gets it before."""
        self.released = False


class World:
    """Two brokers, and a model of what they promised."""

    def __init__(self, rig: Rig, order: str):
        self.rig = rig
        self.order = order
        self.brokers: list[Broker] = []
        self.now = 0.0
        self.published: dict[int, str] = {}
        """Sequence -> key."""
        self.held: dict[int, Held] = {}
        """Sequence -> its last holder."""
        self.handed: list[Held] = []
        self.settled: set[int] = set()

    async def begin(self) -> None:
        self.brokers = [await self.rig.open(), await self.rig.open()]
        await self.brokers[0].create_queue("q", order=self.order)

    async def step(self, name: str, *arguments: object) -> None:
        await getattr(self, name.replace(" ", "_"))(*arguments)

    async def publish(self, which: int, keys: list[str]) -> None:
        batch = [Message(key.encode(), key=key) for key in keys]
        for key, one in zip(keys, await self.brokers[which].publish("q", batch), strict=True):
            assert one.sequence is not None
            assert one.sequence not in self.published, "8: a sequence is used once"
            assert one.sequence > max(self.published, default=0), "commit order is sequence order"
            self.published[one.sequence] = key

    async def claim(self, which: int, count: int, seconds: int) -> None:
        self._handed(await self.brokers[which].claim("q", count, visibility_timeout=seconds), seconds)

    async def claim_twice(self, count: int, seconds: int) -> None:
        one, two = await asyncio.gather(
            *(broker.claim("q", count, visibility_timeout=seconds) for broker in self.brokers)
        )
        assert not {message.sequence for message in one} & {message.sequence for message in two}, "3: one holder"
        for claimed in sorted([one, two], key=lambda messages: [message.sequence for message in messages]):
            self._handed(claimed, seconds)

    def _handed(self, messages: list[ClaimedMessage], seconds: int) -> None:
        together = {message.sequence for message in messages}
        for message in messages:
            seq = message.sequence
            assert self.published.get(seq) == message.key, "1: what was acknowledged is there, and nothing else"
            assert seq not in self.settled, "5: what was settled does not come again"
            before = self.held.get(seq)
            assert before is None or before.until <= self.now + SLACK_SECONDS, "3: one holder at a time"
            if self.order == "key":
                self._in_order(seq, together)
            held = self.held[seq] = Held(message, self.now + seconds)
            self.handed.append(held)

    def _in_order(self, seq: int, together: set[int]) -> None:
        earlier = [one for one, key in self.published.items() if key == self.published[seq] and one < seq]
        assert all(one in self.settled or one in together for one in earlier), "6: a key's messages come in order"

    async def settle(self, which: int, pick: int) -> None:
        if not self.handed:
            return
        held = self.handed[pick % len(self.handed)]
        seq = held.message.sequence
        done = seq in self.settled
        try:
            await self.brokers[which].settle([held.receipt])
        except StaleReceipt:
            assert not done, "settling what is settled is no error"
            assert self.held[seq] is not held or held.released or held.until <= self.now + SLACK_SECONDS, (
                "4: the holder settles"
            )
        else:
            assert done or self.held[seq] is held, "4: nobody else does"
            self.settled.add(seq)

    async def extend(self, which: int, pick: int, seconds: int) -> None:
        await self._hold_on(which, pick, seconds, release=False)

    async def release(self, which: int, pick: int, seconds: int) -> None:
        await self._hold_on(which, pick, seconds, release=True)

    async def _hold_on(self, which: int, pick: int, seconds: int, *, release: bool) -> None:
        if not self.handed:
            return
        held = self.handed[pick % len(self.handed)]
        seq = held.message.sequence
        broker = self.brokers[which]
        try:
            await (broker.release([held.receipt], seconds) if release else broker.extend([held.receipt], seconds))
        except StaleReceipt:
            lapsed = held.released or held.until <= self.now + SLACK_SECONDS
            assert lapsed or self.held[seq] is not held or seq in self.settled, "4: the holder holds"
        else:
            assert self.held[seq] is held, "4: nobody else does"
            assert seq not in self.settled
            assert not held.released, "4: who released it does not hold it"
            held.released = release
            held.until = self.now + seconds

    async def wait(self, seconds: int) -> None:
        await self.rig.advance(seconds)
        self.now += seconds

    async def crash(self, which: int) -> None:
        await self.rig.crash(self.brokers[which])
        self.brokers[which] = await self.rig.open()

    async def trim(self, which: int) -> None:
        await trim(self.brokers[which], "q")

    async def end(self) -> None:
        """1 and 7: whatever was acknowledged and not settled is still there, and comes once all holds are over."""
        await self.wait(1000)
        for turn in range(len(self.published) + 1):
            messages = await self.brokers[turn % 2].claim("q", 1000, visibility_timeout=900)
            if not messages:
                break
            self._handed(messages, 900)
            await self.brokers[turn % 2].settle(messages)
            self.settled.update(message.sequence for message in messages)
        assert self.settled == set(self.published)
        assert (await self.brokers[0].depth("q")).total == 0


async def live(order: str, script: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(f"sqlite:///{Path(folder) / 'rowlock.db'}")
        try:
            world = World(rig, order)
            await world.begin()
            for name, *arguments in script:
                await world.step(str(name), *arguments)
            await world.end()
        finally:
            await rig.close()


@settings(max_examples=80)
@given(st.lists(steps, min_size=12, max_size=40))
def test_two_brokers_at_random(script: list[tuple[object, ...]]) -> None:
    asyncio.run(live("none", script))


@settings(max_examples=80)
@given(st.lists(steps, min_size=12, max_size=40))
def test_two_brokers_at_random_in_order_of_keys(script: list[tuple[object, ...]]) -> None:
    asyncio.run(live("key", script))
