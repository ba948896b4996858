"""Histories of all that can happen to a ledger, by two brokers on one table of rows, against the naive model."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.ledger.naive import Copy, Entry, Handed, Naive
from tests.ledger.rows import content, new_table, state

from rowlock.ledger import stored
from rowlock.ledger.ledger import EXPIRED, Ledger
from rowlock.ledger.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from rowlock.ledger.rules import Run

KEYS = ("a", "b", "c")
FIRST = 1_000
"""The time when a history begins."""

dice = st.randoms(use_true_random=True)
"""What a step does is diced and not drawn piece by piece: that is much faster, and steps shrink away still."""


class Histories(RuleBasedStateMachine):
    """Every transaction is decided by a ledger and by the model: both must agree on the answer and on what is left."""

    order = "none"
    fair = False

    @initialize(dice=dice)
    def begin(self, dice: Random) -> None:
        self.policy = Rules(
            order=self.order,
            fair=self.fair,
            at_most_once=dice.random() < 0.15,
            max_receives=dice.choice((None, None, 1, 2, 3)),
            bury_expired=dice.random() < 0.5,
            look_ahead=dice.choice((2, 5, 20_000)),
        )
        note(f"{self.policy}")
        self.start = start = dice.choice((1, 120, 1_270))
        self.now, self.last = FIRST, start - 1
        self.log: dict[int, Entry] = {}
        self.model = Naive(self.policy, self.log, start)
        self.table = new_table(self.policy, start)
        self.brokers = [Ledger(self.policy), Ledger(self.policy)]
        self.receipts: list[tuple[int, int]] = [(start, 7)]
        """(sequence, claim number) of everything ever handed out, and of one hand-out that never was."""
        self.claims = count(1)
        self.publish(dice)

    @rule(dice=dice)
    def publish(self, dice: Random) -> None:
        """Plain messages in between, so that runs are cut and whole."""
        delayed, mortal = dice.choice((0, 0.1, 0.5)), dice.choice((0, 0.1, 0.5))
        for _ in range(dice.choice((1, 2, 5, 40))):
            self.last += 1
            self.log[self.last] = Entry(
                key=dice.choice(KEYS[: dice.choice((1, 3))]),
                expires_at=self.now + dice.choice((3, 12, 20)) if dice.random() < mortal else None,
                due_at=self.now + dice.choice((0, 3, 12)) if dice.random() < delayed else None,
            )
        note(f"published up to {self.last}: {self.log}")

    @rule(dice=dice)
    def transact(self, dice: Random) -> None:
        self.now += dice.choice((0, 0, 1, 2, 3, 5, 12, 20))
        broker = dice.randrange(2)
        if dice.random() < 0.2:
            self.brokers[broker] = Ledger(self.policy)
        ledger = self.take_part(broker, self.now - dice.choice((0, 0, 0, 7)))
        before, model_before = state(ledger), self.model.before()
        note(f"broker {broker} at {ledger.at}")
        works: tuple[Callable[[Random, Ledger], None], ...] = (
            self.claim, self.claim, self.settle, self.settle, self.extend, self.release, self.give_back, self.bury,
            self.expire, self.pass_over,
        )  # fmt: skip
        for _ in range(dice.randint(1, 4)):
            work = dice.choice(works) if dice.random() > 0.02 else dice.choice((self.seek, self.trim))
            note(f"  {work.__name__}")
            work(dice, ledger)
            if dice.random() < 0.05:
                self.fire(dice, ledger)
            self.compare(ledger)
        if dice.random() < 0.8:
            self.finish(ledger)
        else:
            self.undo(dice, ledger, before, model_before)

    def fire(self, dice: Random, ledger: Ledger) -> None:
        """A timer of the broker's moves the ledger's time while the transaction waits for the database."""
        self.now += dice.choice((1, 5, 12))
        ledger.advance(self.now)
        self.model.at = ledger.at
        note(f"    now at {ledger.at}")

    def undo(self, dice: Random, ledger: Ledger, before: dict[str, object], model_before: Naive) -> None:
        """The transaction was rolled back, perhaps after all that is to be stored was made."""
        note("  rolled back")
        if ledger.touched and dice.random() < 0.5:
            stored.image(ledger)
        ledger.rollback()
        self.model = model_before
        self.model.at = ledger.at
        self.learn_buried(ledger)
        if ledger.at == before["at"]:
            assert self.without_buried(state(ledger)) == self.without_buried(before)
        self.compare(ledger)

    def take_part(self, broker: int, now: int) -> Ledger:
        """Under the lock: the ledger as it is stored, at the time of a decision."""
        ledger = self.brokers[broker]
        before = ledger.at
        self.table.load(ledger, {seq: message.key for seq, message in self.log.items()})
        ledger.begin(now)
        assert ledger.at == max(before, now, self.table.head.at)
        self.model.at = ledger.at
        self.learn_buried(ledger)
        self.compare(ledger)
        return ledger

    def learn_buried(self, ledger: Ledger) -> None:
        """Between decisions a ledger may know, and may not, that an open message has expired: that is not stored."""
        self.model.buried = {seq for seq, reason in ledger.dying.items() if reason == EXPIRED}
        assert all(self.model.has_expired(seq) and not self.model.is_busy(seq) for seq in self.model.buried)

    def finish(self, ledger: Ledger) -> None:
        if ledger.touched:
            self.table.save(ledger)
        else:
            ledger.commit()
            assert content(ledger).keys() == self.model.copies.keys()
        self.learn_buried(ledger)
        self.compare(ledger)

    def without_buried(self, of: dict[str, object]) -> dict[str, object]:
        """That a message has expired stays true after a rollback, and may stay known."""
        return {name: value for name, value in of.items() if name not in ("dying", "opened")}

    # Works

    def claim(self, dice: Random, ledger: Ledger) -> None:
        limit = dice.choice((1, 1, 2, 3, 10, 50))
        known = self.read_beforehand(ledger, limit)
        if dice.random() < 0.5:
            missing = {dice.randint(self.model.lowest(), self.last + 1) for _ in range(dice.randrange(4))}
            known = {seq: message for seq, message in self.log.items() if seq not in missing}
        claim, visible_at = next(self.claims), ledger.at + dice.choice((0, 5, 5, 12, 100))
        handed = _each(ledger.claim(known, self.last, limit, visible_at, claim))
        note(f"    {limit} as {claim} until {visible_at}, knowing {len(known)}: {handed}")
        if self.fair:
            seqs = [one.seq for one in handed]
            self.model.follow(seqs, known.keys(), self.last, limit, ledger)
            assert self.model.hand_out(seqs, visible_at, claim) == handed
            self.learn_buried(ledger)
        else:
            assert handed == self.model.claim(known.keys(), self.last, limit, visible_at, claim)
        self.receipts += [(one.seq, claim) for one in handed]

    def read_beforehand(self, ledger: Ledger, limit: int) -> dict[int, Entry]:
        """The log as a broker knows it: new messages, and of the older ones those that it was told to read."""
        opened, expected = ledger.opened(limit), self.model.opened(limit)
        assert opened == expected or (self.fair and len(opened) == len(expected))
        return {seq: message for seq, message in self.log.items() if seq >= ledger.frontier or seq in opened}

    def receipt(self, dice: Random) -> tuple[int, int]:
        """Mostly one of the last that were handed out; they may be stale, or another broker's."""
        held = [(seq, one.claim) for seq, one in self.model.copies.items() if one.claim]
        seq, claim = dice.choice(held if held and dice.random() < 0.7 else self.receipts[-30:])
        return seq, dice.choice((claim, claim, claim, claim, claim, claim + 1, 0))

    def settle(self, dice: Random, ledger: Ledger) -> None:
        receipts = [self.receipt(dice) for _ in range(dice.choice((1, 1, 5)))]
        note(f"    {receipts}")
        if dice.random() < 0.5:
            verdicts = ledger.settle_all(receipts)
        else:
            verdicts = [ledger.settle(seq, claim) for seq, claim in receipts]
        assert verdicts == [self.model.settle(seq, claim) for seq, claim in receipts]

    def extend(self, dice: Random, ledger: Ledger) -> None:
        (seq, claim), visible_at = self.receipt(dice), ledger.at + dice.choice((0, 3, 20))
        note(f"    {seq} of {claim} until {visible_at}")
        assert ledger.extend(seq, claim, visible_at) is self.model.extend(seq, claim, visible_at)

    def release(self, dice: Random, ledger: Ledger) -> None:
        (seq, claim), visible_at = self.receipt(dice), ledger.at + dice.choice((0, 3, 20))
        note(f"    {seq} of {claim} until {visible_at}")
        assert ledger.release(seq, claim, visible_at) is self.model.release(seq, claim, visible_at)

    def give_back(self, dice: Random, ledger: Ledger) -> None:
        seq, claim = self.receipt(dice)
        note(f"    {seq} of {claim}")
        assert ledger.receives_of(seq) == (self.model.copies[seq].receives if seq in self.model.copies else 0)
        assert ledger.give_back(seq, claim) is self.model.give_back(seq, claim)

    def bury(self, dice: Random, ledger: Ledger) -> None:
        """Dead-letter some that are to be, and one that is perhaps not there."""
        limit = dice.randint(1, 5)
        doomed, dying = ledger.doomed(limit), self.model.dying()
        assert [(one.seq, one.reason) for one in doomed] == sorted(dying.items())[:limit]
        for one in doomed:
            assert one.receives == self.model.copies[one.seq].receives
            assert ledger.drop(one.seq)
            assert self.model.drop(one.seq)
        seq = dice.randint(self.start, self.last + 1)
        assert seq in self.model.copies or not ledger.drop(seq)

    def expire(self, dice: Random, ledger: Ledger) -> None:
        """What a sweep does."""
        limit = 1_000 if self.fair else dice.choice((1, 2, 10))
        ledger.expire(self.log, self.last, limit)
        self.model.expire(self.log.keys(), self.last, limit)

    def pass_over(self, _: Random, ledger: Ledger) -> None:
        stop = self.model.frontier
        while stop <= self.last and self.model.has_expired(stop) and not self.policy.bury_expired:
            stop += 1
        ledger.pass_over(stop)
        self.model.pass_over(stop)

    def seek(self, dice: Random, ledger: Ledger) -> None:
        frontier = dice.randint(self.start, self.last + 1)
        ledger.seek(frontier)
        self.model.seek(frontier)

    def trim(self, dice: Random, ledger: Ledger) -> None:
        first = dice.randint(self.start, self.last)
        ledger.trim(first)
        self.model.trim(first)

    # What must be true at any time

    def compare(self, ledger: Ledger) -> None:
        model = self.model
        assert ledger.frontier == model.frontier
        assert content(ledger) == {seq: _plain(one) for seq, one in model.copies.items()}
        assert ledger.dying == model.dying()
        held, waiting = model.count(held=True), model.count(held=False)
        assert (ledger.outstanding, ledger.held, ledger.waiting) == (len(model.copies), held, waiting)
        assert ledger.open == len(model.copies) - held - waiting
        assert ledger.lowest == model.lowest()
        assert sorted(ledger.opened(1_000_000)) == model.ready()
        assert ledger.ready(self.last) == len(model.open()) + self.last - model.frontier + 1
        wake, next_time = ledger.next_time(), model.next_time()
        assert wake is None or wake > ledger.at
        assert next_time is None or (wake is not None and wake <= next_time)

    @precondition(lambda self: hasattr(self, "table"))
    @invariant()
    def rows_say_the_same(self) -> None:
        """A broker that starts now finds what the model knows."""
        fresh = Ledger(self.policy)
        self.table.load(fresh, {seq: message.key for seq, message in self.log.items()})
        assert fresh.frontier == self.model.frontier
        assert content(fresh) == {seq: _plain(one) for seq, one in self.model.copies.items()}


def _plain(one: Copy) -> tuple[int, int, int, int, bool]:
    return one.claim, one.visible_at, one.receives, one.first_received, one.held


def _each(runs: list[Run]) -> list[Handed]:
    return [Handed(seq, run.receives, run.first_received) for run in runs for seq in range(run.start, run.stop)]


class InTopicOrder(Histories):
    order = "topic"


class ByKey(Histories):
    order = "key"


class Fairly(Histories):
    fair = True


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("machine", [Histories, ByKey, InTopicOrder, Fairly])
def test_every_history_is_that_of_the_model(machine: type[Histories], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "ERA_CHANGES", 4)
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30, report_multiple_bugs=False))
