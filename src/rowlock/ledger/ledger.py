"""The ledger: all that one subscription knows of one partition, and every decision about its messages.

The *frontier* is the first sequence never handed out. Below it, a message is outstanding while a page gives it a
grant; below it and in no page it is done, for ever. Everything here is a function of (pages, messages, now, request)
without I/O. A decision is made between `begin` and `commit` or `rollback`: what it changed in memory counts only after
`commit`.

A message is *busy* while its grant's visible_at lies ahead of the ledger's time, and *open* afterwards. Messages that
are to be dead-lettered are *dying*: outstanding, but no longer in the order, so that they are not handed out and block
no key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush, nsmallest
from itertools import takewhile

from rowlock.ledger.order import ByKey, Fair, Plain
from rowlock.ledger.page import MASK, SHIFT, Grant, Page
from rowlock.ledger.rules import Dying, Logged, Rules, Run, Verdict

GIVEN_UP = "receives"
EXPIRED = "expired"

_TIMERS_LEAST = 1_000
"""No timer is looked for in vain while there are no more than that."""


class Ledger:
    """The delivery state of one (partition, subscription); `ledger.stored` loads and saves it."""

    def __init__(self, rules: Rules, frontier: int = 1):
        self.rules = rules
        self.frontier = frontier
        self.at = 0
        """The latest time that a decision was made for: time never runs backward."""
        self.pages: dict[int, Page] = {}
        self.outstanding = 0
        self.held = 0
        """Messages that a consumer holds."""
        self.waiting = 0
        """Messages that nobody holds and that wait for a time: a retry, or their due time."""
        self.dying: dict[int, str] = {}
        """Sequences that are to be dead-lettered, with the reason."""
        self.order: Plain | ByKey | Fair = _order(rules)
        self.head = frontier >> SHIFT
        """The number of the newest stored page."""
        self.touched = False
        """Whether the decision under way changed anything that is stored."""
        self.changed: dict[int, tuple[bytearray, list[Grant]] | None] = {}
        """The pages that the decision under way changed, as they were before it (None: there was none)."""
        self._frontier_before = frontier
        self._expired: list[int] = []
        """Sequences that are no longer dying, and were found to have expired."""
        self._timers: list[tuple[int, int, Grant]] = []
        self._timer_count = 0
        self._timers_most = _TIMERS_LEAST
        self._grants: dict[tuple[int, int, int, int, bool], Grant] = {}

    # The frame of a decision

    def begin(self, now: int) -> None:
        """Start a decision at that time, or at the latest time already decided for, whichever is later."""
        self._frontier_before = self.frontier
        self.advance(now)

    def advance(self, now: int) -> None:
        """Move time: what became visible by then is open. Nothing of this is stored."""
        self.at = max(self.at, now)
        while self._timers and self._timers[0][0] <= self.at:
            grant = heappop(self._timers)[2]
            grant.timed = False
            for number in dict.fromkeys(grant.pages):
                page = self.pages.get(number)
                if page is not None and (seqs := page.sequences(grant)):
                    self._count_busy(grant, -len(seqs))
                    self._surface(seqs, grant)

    def commit(self) -> None:
        """The decision was stored."""
        self._end()

    def rollback(self) -> None:
        """The decision was not stored: as if it had never been made."""
        for number, before in self.changed.items():
            self.replace(number, before)
            if before is None:
                self.pages.pop(number, None)
        self.frontier = self._frontier_before
        self._end()

    def _end(self) -> None:
        self.changed.clear()
        self._grants.clear()
        self.touched = False
        self._bury_again()
        self.order.tidy()
        if len(self._timers) > self._timers_most:
            self._renew_timers()

    # Reading

    @property
    def open(self) -> int:
        """Outstanding messages that are neither held nor waiting for a time (a busy key may still keep them back)."""
        return self.outstanding - self.held - self.waiting

    def ready(self, last: int) -> int:
        """How many messages there are that nobody holds and that wait for no time."""
        return self.open - len(self.dying) + max(0, last - self.frontier + 1)

    @property
    def lowest(self) -> int:
        """The first sequence that this subscription is not done with."""
        numbers = [number for number, page in self.pages.items() if page.outstanding]
        if not numbers:
            return self.frontier
        page = self.pages[min(numbers)]
        return (page.number << SHIFT) + next(offset for offset, slot in enumerate(page.slots) if slot)

    def next_time(self) -> int | None:
        """When the next busy message may become visible."""
        return self._timers[0][0] if self._timers else None

    def grant_of(self, seq: int) -> Grant | None:
        """The grant of an outstanding message; None when it is done, or was never handed out."""
        page = self.pages.get(seq >> SHIFT)
        if page is None:
            return None
        slot = page.slots[seq & MASK]
        return page.grants[slot - 1] if slot else None

    def opened(self, limit: int) -> list[int]:
        """Some of the open messages that a claim may hand out next, so that they can be read beforehand."""
        return self.order.peek(limit)

    # Claim

    def claim(self, log: Mapping[int, Logged], last: int, limit: int, visible_at: int, claim: int) -> list[Run]:
        """Hand out up to `limit` messages, no further than `log` knows messages: what it lacks may be had later."""
        order = self.order
        if isinstance(order, ByKey):
            return self._hand_out(self._take_by_key(order, log, last, limit), visible_at, claim)
        if isinstance(order, Fair):
            return self._hand_out(self._take_fairly(order, log, last, limit), visible_at, claim)
        runs = self._hand_out(self._take_open(order.take, log, limit), visible_at, claim)
        room = limit - sum(run.stop - run.start for run in runs)
        return runs + self._claim_frontier(log, last, room, visible_at, claim)

    def pass_over(self, stop: int) -> None:
        """The caller knows that all messages from the frontier to `stop` (exclusive) have expired."""
        if stop > self.frontier:
            self.touched = True
            self.frontier = stop

    def expire(self, log: Mapping[int, Logged], last: int, limit: int) -> None:
        """Pass up to `limit` messages at the frontier that have expired, and end open ones that have."""
        for seq in self.opened(limit):
            message = log.get(seq)
            grant = self.grant_of(seq)
            if message is not None and grant is not None and grant.visible_at <= self.at and seq not in self.dying:
                self._has_expired(seq, message)
        for seq in range(self.frontier, min(self.frontier + limit, last + 1)):
            message = log.get(seq)
            if message is None or message.expires_at is None or message.expires_at > self.at:
                break
            self._pass_lifeless(seq, message)

    def _claim_frontier(
        self, log: Mapping[int, Logged], last: int, limit: int, visible_at: int, claim: int
    ) -> list[Run]:
        """New messages in sequence, as few runs."""
        runs: list[Run] = []
        while limit > 0 and self.frontier <= last:
            start = seq = self.frontier
            stop = min(start + limit, last + 1)
            while seq < stop:
                message = log.get(seq)
                if message is None or not self._is_live(message):
                    break
                seq += 1
            if seq > start:
                self.pass_over(seq)
                if not self.rules.at_most_once:
                    self._give(start, seq, self._grant(claim, visible_at, 1, self.at, True))
                runs.append(Run(start, seq, 1, self.at))
                limit -= seq - start
            elif message is None:
                break
            else:
                self._pass_lifeless(seq, message)
        return runs

    def _is_live(self, message: Logged) -> bool:
        """Neither expired nor delayed."""
        return (message.expires_at is None or message.expires_at > self.at) and (
            message.due_at is None or message.due_at <= self.at
        )

    def _pass_lifeless(self, seq: int, message: Logged) -> None:
        """The message at the frontier has expired, or is not due yet."""
        self.pass_over(seq + 1)
        if message.expires_at is None or message.expires_at > self.at:
            assert message.due_at is not None
            self._learn(seq, self._name(message))
            self._give(seq, seq + 1, self._grant(0, message.due_at, 0, 0, False))
        elif self.rules.bury_expired:
            self._learn(seq, self._name(message))
            self._give(seq, seq + 1, self._grant(0, 0, 0, 0, False))
            self._bury(seq, EXPIRED)

    def _take_open(self, take: Callable[[int], list[int]], log: Mapping[int, Logged], limit: int) -> list[int]:
        """Open messages that are alive. Expired ones end; when the log does not know one, the rest waits."""
        taken: list[int] = []
        unknown: list[int] = []
        while len(taken) < limit and not unknown and (seqs := take(limit - len(taken))):
            for seq in seqs:
                message = log.get(seq)
                if message is None:
                    unknown.append(seq)
                elif not self._has_expired(seq, message):
                    taken.append(seq)
        self.order.open(unknown)
        return taken

    def _has_expired(self, seq: int, message: Logged) -> bool:
        """Whether an open message has expired; if so it is dropped, or dying."""
        if message.expires_at is None or message.expires_at > self.at:
            return False
        if self.rules.bury_expired:
            self._bury(seq, EXPIRED)
        else:
            self._drop(seq)
        return True

    def _take_by_key(self, order: ByKey, log: Mapping[int, Logged], last: int, limit: int) -> list[int]:
        taken: list[int] = []
        counts: dict[str, int] = {}
        """How many of each key are in this answer: of a key that has no others outstanding, more may follow."""
        left: list[str] = []
        while len(taken) < limit and (name := order.next_ready()) is not None:
            seqs = self._first_of_key(order, name, log, limit - len(taken))
            order.busy(seqs)
            taken += seqs
            counts[name] = len(seqs)
            if not seqs:
                left.append(name)
        for name in left:
            order.leave(name)
        while len(taken) < limit and (found := self._next_known(log, last, len(taken))):
            seq, name = found
            free = order.outstanding(name) == counts.get(name, 0)
            if not free and self.rules.order == "topic":
                break
            self._skip(seq, name, busy=free)
            if free:
                counts[name] = counts.get(name, 0) + 1
                taken.append(seq)
        return taken

    def _first_of_key(self, order: ByKey, name: str, log: Mapping[int, Logged], limit: int) -> list[int]:
        """The first messages of a ready key as far as the log knows them; those that have expired end."""
        while True:
            known = list(takewhile(log.__contains__, order.first(name, limit)))
            if not [seq for seq in known if self._has_expired(seq, log[seq])]:
                return known

    def _take_fairly(self, order: Fair, log: Mapping[int, Logged], last: int, limit: int) -> list[int]:
        taken = self._take_open(partial(order.take, greedy_too=False), log, limit)
        while len(taken) < limit and (found := self._next_known(log, last, len(taken))):
            seq, name = found
            greedy = order.greedy(name)
            self._skip(seq, name, busy=not greedy)
            if not greedy:
                taken.append(seq)
        return taken + self._take_open(partial(order.take, greedy_too=True), log, limit - len(taken))

    def _next_known(self, log: Mapping[int, Logged], last: int, taken: int) -> tuple[int, str] | None:
        """The next live message at the frontier and its key, within the look-ahead and what the log knows."""
        while self.frontier <= last and self.open - taken < self.rules.look_ahead:
            seq = self.frontier
            message = log.get(seq)
            if message is None:
                return None
            if self._is_live(message):
                return seq, self._name(message)
            self._pass_lifeless(seq, message)
        return None

    def _name(self, message: Logged) -> str:
        return "" if self.rules.order == "topic" else message.key or ""

    def _learn(self, seq: int, name: str) -> None:
        if not isinstance(self.order, Plain):
            self.order.key_of[seq] = name

    def _skip(self, seq: int, name: str, *, busy: bool) -> None:
        """The frontier passes a live message, which is taken (busy) or set back."""
        self.pass_over(seq + 1)
        self._learn(seq, name)
        page, offset = self._page(seq), seq & MASK
        page.put(offset, offset + 1, self._grant(0, 0, 0, 0, False))
        self.outstanding += 1
        self.order.add((seq,))
        if busy:
            self.order.busy((seq,))
        else:
            self.order.open((seq,))

    def _hand_out(self, seqs: Sequence[int], visible_at: int, claim: int) -> list[Run]:
        """Outstanding messages that were taken from the order get their next grant, or are done at once."""
        runs: list[Run] = []
        for seq in seqs:
            grant = self.grant_of(seq)
            assert grant is not None
            receives, first = grant.receives + 1, grant.first_received or self.at
            if self.rules.at_most_once:
                self._drop(seq)
            else:
                self._regrant(seq, grant, self._grant(claim, visible_at, receives, first, True))
            if runs and runs[-1][1:] == (seq, receives, first):
                runs[-1] = Run(runs[-1].start, seq + 1, receives, first)
            else:
                runs.append(Run(seq, seq + 1, receives, first))
        return runs

    # Settle, extend, release

    def settle(self, seq: int, claim: int) -> Verdict:
        """The message is done. Unordered, a late settle of the last holder counts while nobody else holds it."""
        grant, verdict = self._of_claimant(seq, claim)
        if grant is None:
            return verdict
        if self.rules.order != "none" and not (grant.held and grant.visible_at > self.at):
            return Verdict.STALE
        self._drop(seq)
        return Verdict.DONE

    def settle_all(self, wanted: Sequence[tuple[int, int]]) -> list[Verdict]:
        """`settle` for many (sequence, claim number); in an unordered ledger, at the cost of a few lookups each."""
        if not isinstance(self.order, Plain) or self.dying or len(wanted) == 1:
            return [self.settle(seq, claim) for seq, claim in wanted]
        verdicts: list[Verdict] = []
        settled: dict[Grant, int] = {}
        number, page = -1, None
        for seq, claim in wanted:
            if seq >> SHIFT != number:
                number = seq >> SHIFT
                page = self.pages.get(number)
            slot = page.slots[seq & MASK] if page is not None else 0
            if not slot or page is None or not claim or (grant := page.grants[slot - 1]).claim != claim:
                verdicts.append(self._of_claimant(seq, claim)[1])
                continue
            if number not in self.changed:
                self._save_before(number)
            page.slots[seq & MASK] = 0
            settled[grant] = settled.get(grant, 0) + 1
            verdicts.append(Verdict.DONE)
            if grant.visible_at <= self.at:
                self.order.done((seq,))
        for grant, count in settled.items():
            self.outstanding -= count
            if grant.visible_at > self.at:
                self._count_busy(grant, -count)
        return verdicts

    def extend(self, seq: int, claim: int, visible_at: int) -> Verdict:
        """The holder holds the message until then."""
        return self._hold_on(seq, claim, visible_at, held=True)

    def release(self, seq: int, claim: int, visible_at: int) -> Verdict:
        """The holder gives the message up; it may be handed out again from then on."""
        return self._hold_on(seq, claim, visible_at, held=False)

    def give_back(self, seq: int, claim: int) -> Verdict:
        """The message was never seen by the one it was handed to: as if that had not happened."""
        grant, verdict = self._of_claimant(seq, claim)
        if grant is None:
            return verdict
        receives = grant.receives - 1
        self._regrant(seq, grant, self._grant(0, 0, receives, grant.first_received if receives else 0, False))
        return Verdict.DONE

    def receives_of(self, seq: int) -> int:
        """How often an outstanding message was handed out (a backoff depends on it)."""
        grant = self.grant_of(seq)
        return grant.receives if grant else 0

    def _of_claimant(self, seq: int, claim: int) -> tuple[Grant | None, Verdict]:
        grant = self.grant_of(seq)
        if grant is None:
            return None, Verdict.GONE if seq < self.frontier else Verdict.STALE
        if grant.claim != claim or not claim:
            return None, Verdict.STALE
        return grant, Verdict.DONE

    def _hold_on(self, seq: int, claim: int, visible_at: int, *, held: bool) -> Verdict:
        grant, verdict = self._of_claimant(seq, claim)
        if grant is None:
            return verdict
        if not grant.held or grant.visible_at <= self.at:
            return Verdict.STALE
        new = self._grant(claim, visible_at, grant.receives, grant.first_received, held)
        self._regrant(seq, grant, new)
        return Verdict.DONE

    # Dead-lettering, seek, retention

    def doomed(self, limit: int) -> list[Dying]:
        """Messages to dead-letter, in sequence."""
        found: list[Dying] = []
        for seq in nsmallest(limit, self.dying):
            grant = self.grant_of(seq)
            assert grant is not None
            found.append(Dying(seq, self.dying[seq], grant.receives))
        return found

    def drop(self, seq: int) -> bool:
        """The message was dead-lettered or moved: done. False: it was done already."""
        if self.grant_of(seq) is None:
            return False
        self._drop(seq)
        return True

    def seek(self, frontier: int) -> None:
        """Start again from there: every hold is dropped and every receipt void."""
        self.touched = True
        for number in list(self.pages):
            self._save_before(number)
            self.replace(number, None)
        self.frontier = frontier

    def trim(self, first: int) -> None:
        """Below `first` nothing is held any more, for anybody."""
        self.pass_over(first)
        for number in sorted(self.pages):
            base = number << SHIFT
            if base >= first:
                break
            for offset, slot in enumerate(self.pages[number].slots[: first - base]):
                if slot:
                    self._drop(base + offset)

    # Pages, counts and timers

    def replace(self, number: int, content: tuple[bytearray, list[Grant]] | None) -> None:
        """Put other content in the place of a page's and index it: another broker's, or that before a decision."""
        page = self.pages.get(number)
        if page is not None:
            self._forget(page)
        if content is None:
            if page is not None:
                page.slots, page.grants = bytearray(len(page.slots)), []
            return
        if page is None:
            page = self.pages[number] = Page(number)
        page.slots, page.grants = content
        for grant, count in page.runs():
            self.outstanding += count
            seqs = page.sequences(grant)
            self.order.add(seqs)
            if grant.visible_at > self.at:
                if number not in grant.pages:
                    grant.pages.append(number)
                self._hold_back(seqs, grant)
                self._set_timer(grant)
            else:
                self._surface(seqs, grant)

    def _forget(self, page: Page) -> None:
        """Take a page out of all indexes."""
        base = page.number << SHIFT
        seqs = [base + offset for offset, slot in enumerate(page.slots) if slot]
        for seq in seqs:
            self._unbury(seq)
        for grant, count in page.runs():
            self.outstanding -= count
            if grant.visible_at > self.at:
                self._count_busy(grant, -count)
        self.order.done(seqs)

    def _page(self, seq: int) -> Page:
        """The page of a sequence, which the decision under way is about to change."""
        number = seq >> SHIFT
        self._save_before(number)
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = Page(number)
        return page

    def _save_before(self, number: int) -> None:
        self.touched = True
        if number not in self.changed:
            page = self.pages.get(number)
            self.changed[number] = None if page is None else (page.slots[:], page.grants[:])

    def _grant(self, claim: int, visible_at: int, receives: int, first_received: int, held: bool) -> Grant:
        """One grant for all that a decision gives alike."""
        key = (claim, visible_at, receives, first_received, held)
        grant = self._grants.get(key)
        if grant is None:
            grant = self._grants[key] = Grant(*key)
            self._set_timer(grant)
        return grant

    def _set_timer(self, grant: Grant) -> None:
        if not grant.timed and grant.visible_at > self.at:
            grant.timed = True
            self._timer_count += 1
            heappush(self._timers, (grant.visible_at, self._timer_count, grant))

    def _renew_timers(self) -> None:
        """Forget the timers of grants without messages: extending or settling for hours would pile them up."""
        live = {id(grant): grant for page in self.pages.values() for grant, _ in page.runs()}
        for entry in self._timers:
            entry[2].timed = entry[2].visible_at > self.at and id(entry[2]) in live
        self._timers = [entry for entry in self._timers if entry[2].timed]
        heapify(self._timers)
        self._timers_most = 2 * len(self._timers) + _TIMERS_LEAST

    def _count_busy(self, grant: Grant, count: int) -> None:
        if grant.held:
            self.held += count
        else:
            self.waiting += count

    def _give(self, start: int, stop: int, grant: Grant) -> None:
        """Sequences that were not outstanding get a grant."""
        seq = start
        while seq < stop:
            page_stop = min(stop, ((seq >> SHIFT) + 1) << SHIFT)
            self._page(seq).put(seq & MASK, (page_stop - 1 & MASK) + 1, grant)
            seq = page_stop
        self.outstanding += stop - start
        self.order.add(range(start, stop))
        if grant.visible_at > self.at:
            self._hold_back(range(start, stop), grant)
        else:
            self._surface(range(start, stop), grant)

    def _hold_back(self, seqs: Sequence[int], grant: Grant) -> None:
        """Messages are busy, or not due yet."""
        self._count_busy(grant, len(seqs))
        if grant.receives:
            self.order.busy(seqs)

    def _regrant(self, seq: int, old: Grant, new: Grant) -> None:
        """An outstanding message gets another grant."""
        if self._unbury(seq):
            self.order.add((seq,))
        if old.visible_at > self.at:
            self._count_busy(old, -1)
        page, offset = self._page(seq), seq & MASK
        page.put(offset, offset + 1, new)
        if new.visible_at > self.at:
            self._hold_back((seq,), new)
        else:
            self._surface((seq,), new)

    def _surface(self, seqs: Sequence[int], grant: Grant) -> None:
        """Messages that were busy are visible again, or have been received as often as they may be."""
        most = self.rules.max_receives
        if most is not None and grant.receives >= most:
            for seq in seqs:
                self._bury(seq, GIVEN_UP)
        else:
            self.order.open(seqs)

    def _bury(self, seq: int, reason: str) -> None:
        self.order.hide((seq,))
        self.dying[seq] = reason

    def _unbury(self, seq: int) -> bool:
        reason = self.dying.pop(seq, None)
        if reason == EXPIRED:
            self._expired.append(seq)
        return reason is not None

    def _bury_again(self) -> None:
        """What has expired stays so, also after a rollback; else nobody would know until the next claim."""
        for seq in self._expired:
            grant = self.grant_of(seq)
            if grant is not None and grant.visible_at <= self.at and seq not in self.dying:
                self._bury(seq, EXPIRED)
        self._expired.clear()

    def _drop(self, seq: int) -> None:
        """An outstanding message is done."""
        page, offset = self._page(seq), seq & MASK
        grant = page.grants[page.slots[offset] - 1]
        page.slots[offset] = 0
        self.outstanding -= 1
        if grant.visible_at > self.at:
            self._count_busy(grant, -1)
        self._unbury(seq)
        self.order.done((seq,))


def _order(rules: Rules) -> Plain | ByKey | Fair:
    if rules.order != "none":
        return ByKey()
    return Fair() if rules.fair else Plain()
