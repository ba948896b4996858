"""Histories of all that can happen to a ledger, by two brokers on one table of rows, against the naive model."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
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

    from rowlock.ledger.rules import Run

KEYS = ("a", "b", "c")
FIRST = 1_000
"""The time when a history begins."""
SOON = st.integers(1, 40)

Draw = st.DataObject


class Histories(RuleBasedStateMachine):
    """Every transaction is decided by a ledger and by the model: both must agree on the answer and on what is left."""

    order = "none"
    fair = False

    @initialize(
        start=st.sampled_from((1, 120, 1_270)),
        at_most_once=st.sampled_from((False, False, False, True)),
        max_receives=st.sampled_from((None, None, 1, 2, 3)),
        bury_expired=st.booleans(),
        look_ahead=st.sampled_from((2, 5, 20_000)),
    )
    def begin(
        self, start: int, at_most_once: bool, max_receives: int | None, bury_expired: bool, look_ahead: int
    ) -> None:
        self.policy = Rules(
            order=self.order,
            fair=self.fair,
            at_most_once=at_most_once,
            max_receives=max_receives,
            bury_expired=bury_expired,
            look_ahead=look_ahead,
        )
        self.now, self.last, self.start = FIRST, start - 1, start
        self.log: dict[int, Entry] = {}
        self.model = Naive(self.policy, self.log, start)
        self.table = new_table(self.policy, start)
        self.brokers = [Ledger(self.policy), Ledger(self.policy)]
        self.receipts: list[tuple[int, int]] = [(start, 7)]
        """(sequence, claim number) of everything ever handed out, and of one hand-out that never was."""
        self.claims = count(1)

    # What happens outside of the ledger

    @rule(
        number=st.sampled_from((1, 1, 2, 5, 40)),
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3),
        expires=st.none() | SOON,
        due=st.sampled_from((None, None, None, 3, 15)),
    )
    def publish(self, number: int, keys: list[str], expires: int | None, due: int | None) -> None:
        for offset in range(number):
            self.last += 1
            # Of a batch only the first one is delayed and only the last one expires, so that they lie among others.
            self.log[self.last] = Entry(
                keys[offset % len(keys)],
                self.now + expires if expires is not None and offset == number - 1 else None,
                self.now + due if due is not None and offset == 0 else None,
            )

    @rule(by=SOON)
    def pass_time(self, by: int) -> None:
        self.now += by

    # Transactions

    @rule(
        data=st.data(),
        broker=st.integers(0, 1),
        skew=st.sampled_from((0, 0, 0, -7)),
        works=st.integers(1, 3),
        restarted=st.sampled_from((False, False, False, True)),
        stored=st.sampled_from((True, True, True, False)),
    )
    def transact(self, data: Draw, broker: int, skew: int, works: int, restarted: bool, stored: bool) -> None:
        if restarted:
            self.brokers[broker] = Ledger(self.policy)
        ledger = self.take_part(broker, self.now + skew)
        before, model_before = state(ledger), self.model.before()
        options: tuple[Callable[[Draw, Ledger], None], ...] = (
            self.claim, self.claim, self.claim, self.settle, self.settle, self.hold_on, self.give_back, self.bury,
            self.expire, self.rarely,
        )  # fmt: skip
        for _ in range(works):
            data.draw(st.sampled_from(options))(data, ledger)
            self.compare(ledger)
        if stored:
            self.finish(ledger)
        else:
            ledger.rollback()
            self.model = model_before
            self.learn_buried(ledger)
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

    def claim(self, data: Draw, ledger: Ledger) -> None:
        limit = data.draw(st.sampled_from((1, 1, 2, 3, 10, 50)))
        timeout = data.draw(st.sampled_from((0, 5, 5, 12, 100)))
        missing = data.draw(st.sets(st.integers(max(self.start, self.last - 15), self.last + 1), max_size=3))
        known = {seq: message for seq, message in self.log.items() if seq not in missing}
        readable = data.draw(st.booleans())
        if readable:
            known = self.read_beforehand(ledger, limit)
        claim, visible_at = next(self.claims), ledger.at + timeout
        handed = _each(ledger.claim(known, self.last, limit, visible_at, claim))
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

    def receipt(self, data: Draw) -> tuple[int, int]:
        """Mostly one of the last that were handed out; they may be stale, or of another broker."""
        seq, claim = data.draw(st.sampled_from(self.receipts[-1:-30:-1]))
        return seq, data.draw(st.sampled_from((claim, claim, claim, claim, claim + 1, 0)))

    def settle(self, data: Draw, ledger: Ledger) -> None:
        for _ in range(data.draw(st.sampled_from((1, 1, 5)))):
            seq, claim = self.receipt(data)
            assert ledger.settle(seq, claim) is self.model.settle(seq, claim)

    def hold_on(self, data: Draw, ledger: Ledger) -> None:
        seq, claim = self.receipt(data)
        visible_at = ledger.at + data.draw(st.sampled_from((0, 3, 20)))
        if data.draw(st.booleans()):
            assert ledger.extend(seq, claim, visible_at) is self.model.extend(seq, claim, visible_at)
        else:
            assert ledger.release(seq, claim, visible_at) is self.model.release(seq, claim, visible_at)

    def give_back(self, data: Draw, ledger: Ledger) -> None:
        seq, claim = self.receipt(data)
        assert ledger.receives_of(seq) == (self.model.copies[seq].receives if seq in self.model.copies else 0)
        assert ledger.give_back(seq, claim) is self.model.give_back(seq, claim)

    def bury(self, data: Draw, ledger: Ledger) -> None:
        """Dead-letter some that are to be, and one that is perhaps not there."""
        limit = data.draw(st.integers(1, 5))
        doomed = ledger.doomed(limit)
        dying = self.model.dying()
        assert [(one.seq, one.reason) for one in doomed] == sorted(dying.items())[:limit]
        for one in doomed:
            assert one.receives == self.model.copies[one.seq].receives
            assert ledger.drop(one.seq)
            assert self.model.drop(one.seq)
        seq = data.draw(st.integers(self.start, self.last + 1))
        if seq not in self.model.copies:
            assert not ledger.drop(seq)

    def expire(self, data: Draw, ledger: Ledger) -> None:
        """What a sweep does: pass expired messages."""
        if data.draw(st.booleans()):
            limit = 1_000 if self.fair else data.draw(st.sampled_from((1, 2, 10)))
            ledger.expire(self.log, self.last, limit)
            self.model.expire(self.log.keys(), self.last, limit)
            return
        stop = self.model.frontier
        while stop <= self.last and self.model.has_expired(stop) and not self.policy.bury_expired:
            stop += 1
        ledger.pass_over(stop)
        self.model.pass_over(stop)

    def rarely(self, data: Draw, ledger: Ledger) -> None:
        if data.draw(st.booleans()):
            frontier = data.draw(st.integers(self.start, self.last + 1))
            ledger.seek(frontier)
            self.model.seek(frontier)
        elif data.draw(st.booleans()):
            first = data.draw(st.integers(self.start, max(self.start, self.last - 3)))
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
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=40, report_multiple_bugs=False))
