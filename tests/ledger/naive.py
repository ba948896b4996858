"""A naive model of a ledger: one record per message, no index, no pages; slow and plainly right.

It decides every request by looking at all messages, and asserts the invariants on each hand-out by itself. Where a
ledger may choose (order `none` with `fair`), the model checks the ledger's choice and follows it.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rowlock.ledger.ledger import EXPIRED, GIVEN_UP
from rowlock.ledger.rules import Rules, Verdict
from rowlock.limits import FAIR_FREE_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from collections.abc import Set as AbstractSet

    from rowlock.ledger.ledger import Ledger


class Entry(NamedTuple):
    """A message in the log, as far as a ledger cares."""

    key: str | None = None
    expires_at: int | None = None
    due_at: int | None = None


class Handed(NamedTuple):
    """A message in the answer to a claim."""

    seq: int
    receives: int
    first_received: int


@dataclass
class Copy:
    """What a subscription knows of one outstanding message."""

    claim: int = 0
    visible_at: int = 0
    receives: int = 0
    first_received: int = 0
    held: bool = False


@dataclass
class Naive:
    rules: Rules
    log: dict[int, Entry]
    frontier: int = 1
    at: int = 0
    copies: dict[int, Copy] = field(default_factory=dict)
    buried: set[int] = field(default_factory=set)
    """Open messages that were seen to have expired and are to be dead-lettered for it."""
    done: set[int] = field(default_factory=set)

    def before(self) -> Naive:
        """A copy to go back to; the log is never changed by a ledger."""
        other = copy(self)
        other.copies, other.buried, other.done = deepcopy(self.copies), set(self.buried), set(self.done)
        return other

    # What is what

    def key(self, seq: int) -> str:
        return "" if self.rules.order == "topic" else self.log[seq].key or ""

    def is_busy(self, seq: int) -> bool:
        return self.copies[seq].visible_at > self.at

    def has_expired(self, seq: int) -> bool:
        expires_at = self.log[seq].expires_at
        return expires_at is not None and expires_at <= self.at

    def is_delayed(self, seq: int) -> bool:
        due_at = self.log[seq].due_at
        return due_at is not None and due_at > self.at

    def dying(self) -> dict[int, str]:
        found = {}
        for seq, one in self.copies.items():
            if not self.is_busy(seq):
                if self.rules.max_receives is not None and one.receives >= self.rules.max_receives:
                    found[seq] = GIVEN_UP
                elif seq in self.buried:
                    found[seq] = EXPIRED
        return found

    def open(self) -> list[int]:
        """Messages that could be handed out, as far as they alone are concerned."""
        dying = self.dying()
        return sorted(seq for seq in self.copies if not self.is_busy(seq) and seq not in dying)

    def of_key(self, name: str) -> list[int]:
        """The messages that block a key."""
        dying = self.dying()
        return sorted(seq for seq in self.copies if self.key(seq) == name and seq not in dying)

    def ready(self) -> list[int]:
        """Messages that may be handed out now, also where a key's other messages have a say."""
        if self.rules.order == "none":
            return self.open()
        return [seq for seq in self.open() if not self._is_kept_back(seq)]

    def _is_kept_back(self, seq: int) -> bool:
        """By a message of the key that is held or waits for a retry, or by an earlier one that is not due yet."""
        busy = [other for other in self.of_key(self.key(seq)) if self.is_busy(other)]
        return any(self.copies[other].receives or other < seq for other in busy)

    def count(self, *, held: bool) -> int:
        return sum(self.is_busy(seq) and one.held == held for seq, one in self.copies.items())

    def next_time(self) -> int | None:
        return min((one.visible_at for seq, one in self.copies.items() if self.is_busy(seq)), default=None)

    def lowest(self) -> int:
        return min(self.copies, default=self.frontier)

    def opened(self, limit: int) -> list[int]:
        """The messages behind the frontier that come next."""
        ready = self.ready()
        if self.rules.order == "none":
            return ready[:limit]
        names = dict.fromkeys(self.key(seq) for seq in ready)
        return [seq for name in names for seq in ready if self.key(seq) == name][:limit]

    def expire(self, known: AbstractSet[int], last: int, limit: int) -> None:
        for seq in self.opened(limit):
            if seq in known:
                self._end_if_expired(seq)
        stop = self.frontier + limit
        while self.frontier < min(stop, last + 1) and self.frontier in known and self.has_expired(self.frontier):
            self._pass(self.frontier)

    # Claim

    def claim(self, known: AbstractSet[int], last: int, limit: int, visible_at: int, claim: int) -> list[Handed]:
        """What a claim must answer, in its order; `known` are the messages that the ledger is told of."""
        taken = self._take_open(known, limit) if self.rules.order == "none" else self._take_keys(known, limit)
        while len(taken) < limit and (seq := self._next(known, last, taken)):
            free = self.rules.order == "none" or set(self.of_key(self.key(seq))) <= set(taken)
            if not free and self.rules.order == "topic":
                break
            self._pass(seq)
            if free:
                taken.append(seq)
        return self.hand_out(taken, visible_at, claim)

    def _may_look_ahead(self, taken: Collection[int]) -> bool:
        """Whether the frontier may go on; only orders with keys leave live messages behind it."""
        skipped = len(self.copies) - self.count(held=True) - self.count(held=False) - len(taken)
        return (self.rules.order == "none" and not self.rules.fair) or skipped < self.rules.look_ahead

    def _take_open(self, known: AbstractSet[int], limit: int) -> list[int]:
        """As many of the lowest as there is room, and again while all of these were known and some had expired."""
        taken: list[int] = []
        candidates = self.open()
        while candidates and len(taken) < limit:
            room = limit - len(taken)
            seqs, candidates = candidates[:room], candidates[room:]
            taken += [seq for seq in seqs if seq in known and not self._end_if_expired(seq)]
            if not known >= set(seqs):
                break
        return taken

    def _take_keys(self, known: AbstractSet[int], limit: int) -> list[int]:
        taken: list[int] = []
        for name in dict.fromkeys(self.key(seq) for seq in self.ready()):
            for seq in self.of_key(name):
                if len(taken) == limit or seq not in known or self.is_busy(seq):
                    break
                if not self._end_if_expired(seq):
                    taken.append(seq)
        return taken

    def _next(self, known: AbstractSet[int], last: int, taken: list[int]) -> int:
        """The next live message at the frontier, 0 when there is none; passes those that are not."""
        while self.frontier <= last and self.frontier in known and self._may_look_ahead(taken):
            seq = self.frontier
            if not self.has_expired(seq) and not self.is_delayed(seq):
                return seq
            self._pass(seq)
        return 0

    def _pass(self, seq: int) -> None:
        """The frontier passes a message, which becomes outstanding unless it is over."""
        self.frontier = seq + 1
        if not self.has_expired(seq):
            self.copies[seq] = Copy(visible_at=(self.log[seq].due_at or 0) if self.is_delayed(seq) else 0)
        elif self.rules.bury_expired:
            self.copies[seq] = Copy()
            self.buried.add(seq)
        else:
            self.done.add(seq)

    def _end_if_expired(self, seq: int) -> bool:
        if not self.has_expired(seq):
            return False
        if self.rules.bury_expired:
            self.buried.add(seq)
        else:
            self.finish(seq)
        return True

    def hand_out(self, seqs: Iterable[int], visible_at: int, claim: int) -> list[Handed]:
        """Hand these out in this order; asserts the invariants that no answer may break."""
        answer = list(seqs)
        self._check_answer(answer)
        handed = []
        for seq in answer:
            old = self.copies[seq]
            new = Copy(claim, visible_at, old.receives + 1, old.first_received or self.at, held=True)
            handed.append(Handed(seq, new.receives, new.first_received))
            if self.rules.at_most_once:
                self.finish(seq)
            else:
                self.copies[seq] = new
        return handed

    def _check_answer(self, answer: list[int]) -> None:
        assert len(set(answer)) == len(answer), f"handed out twice in one answer: {answer}"
        dying = self.dying()
        for seq in answer:
            assert seq not in self.done, f"{seq} was done"
            assert seq < self.frontier, f"{seq} is handed out above the frontier {self.frontier}"
            assert not self.is_busy(seq), f"{seq} is held, or waits"
            assert seq not in dying, f"{seq} is to be dead-lettered"
            assert not self.has_expired(seq), f"{seq} has expired"
            if self.rules.order != "none":
                earlier = [other for other in self.of_key(self.key(seq)) if other < seq]
                assert earlier == sorted(one for one in answer[: answer.index(seq)] if self.key(one) == self.key(seq))
                assert not self._is_kept_back(seq), f"the key of {seq} is busy"

    # A ledger's own choice

    def follow(self, seqs: list[int], known: AbstractSet[int], last: int, limit: int, ledger: Ledger) -> None:
        """Before `hand_out`: pass the frontier as far as the ledger did, and check that nobody was forgotten."""
        frontier = ledger.frontier
        assert frontier >= self.frontier
        passed = range(self.frontier, frontier)
        for seq in passed:
            assert seq in known
            assert seq <= last
            self._pass(seq)
        for seq in self.open():
            if seq not in seqs and ledger.grant_of(seq) is None:
                assert seq in known
                assert self.has_expired(seq)
                self.finish(seq)
        for seq in set(passed).intersection(self.open()).difference(seqs):
            assert self._may_set_back(seq, seqs), f"{seq} was set back, and its key has not much in flight"
        if len(seqs) < limit:
            left_out = [seq for seq in self.open() if seq not in seqs and not self.has_expired(seq)]
            assert not left_out or not known >= set(self.open()), f"an answer with room left out {left_out}"
            assert frontier > last or frontier not in known or not self._may_look_ahead(())

    def _may_set_back(self, seq: int, seqs: list[int]) -> bool:
        name = self.key(seq)
        in_flight = [one for one in self.copies if (self.is_busy(one) or one in seqs) and self.key(one) == name]
        return len(in_flight) > FAIR_FREE_MESSAGES

    # Settle, extend, release

    def settle(self, seq: int, claim: int) -> Verdict:
        verdict = self._claimant(seq, claim)
        if verdict is Verdict.DONE and self.rules.order != "none" and not self._is_held(seq):
            return Verdict.STALE
        if verdict is Verdict.DONE:
            self.finish(seq)
        return verdict

    def extend(self, seq: int, claim: int, visible_at: int) -> Verdict:
        return self._hold_on(seq, claim, visible_at, held=True)

    def release(self, seq: int, claim: int, visible_at: int) -> Verdict:
        return self._hold_on(seq, claim, visible_at, held=False)

    def give_back(self, seq: int, claim: int) -> Verdict:
        verdict = self._claimant(seq, claim)
        if verdict is Verdict.DONE:
            old = self.copies[seq]
            first = old.first_received if old.receives > 1 else 0
            self.copies[seq] = Copy(receives=old.receives - 1, first_received=first)
            self.buried.discard(seq)
        return verdict

    def _hold_on(self, seq: int, claim: int, visible_at: int, *, held: bool) -> Verdict:
        verdict = self._claimant(seq, claim)
        if verdict is Verdict.DONE and not self._is_held(seq):
            return Verdict.STALE
        if verdict is Verdict.DONE:
            old = self.copies[seq]
            self.copies[seq] = Copy(claim, visible_at, old.receives, old.first_received, held)
        return verdict

    def _claimant(self, seq: int, claim: int) -> Verdict:
        if seq not in self.copies:
            return Verdict.GONE if seq < self.frontier else Verdict.STALE
        return Verdict.DONE if claim and self.copies[seq].claim == claim else Verdict.STALE

    def _is_held(self, seq: int) -> bool:
        return self.copies[seq].held and self.is_busy(seq)

    # The end of messages

    def finish(self, seq: int) -> None:
        del self.copies[seq]
        self.buried.discard(seq)
        self.done.add(seq)

    def drop(self, seq: int) -> bool:
        if seq not in self.copies:
            return False
        self.finish(seq)
        return True

    def pass_over(self, stop: int) -> None:
        self.done.update(range(self.frontier, stop))
        self.frontier = max(self.frontier, stop)

    def seek(self, frontier: int) -> None:
        self.done.update(range(self.frontier, frontier))
        self.done = {seq for seq in self.done if seq < frontier}
        self.done.update(seq for seq in self.copies if seq < frontier)
        self.copies.clear()
        self.buried.clear()
        self.frontier = frontier

    def trim(self, first: int) -> None:
        self.pass_over(first)
        for seq in [seq for seq in self.copies if seq < first]:
            self.finish(seq)
