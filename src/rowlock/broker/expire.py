"""Expire: a ledger that nobody claims from passes what has expired, and gives up what was received too often."""

from __future__ import annotations

from collections.abc import Iterable

from rowlock import limits
from rowlock.broker.catalog import Source, Subscription
from rowlock.broker.cycle import AGAIN
from rowlock.broker.draft import Draft
from rowlock.broker.work import Place, Work, step_of
from rowlock.store.port import Cursor, Wanted


class Expire(Work):
    """Pass expired messages at the frontier, and drop expired ones behind it, in bounded steps.

    What is to be dead-lettered is found by the ledger, and moved by a work of its own.
    """

    verb = "expire"
    rank = 3

    def __init__(self, subscription: Subscription, source: Source):
        super().__init__()
        self._cursor: Cursor = (source.part, subscription.id)
        self.places = {self._cursor: Place(self._cursor, subscription.version, subscription.rules)}
        self._step = step_of(subscription.largest_bytes)
        self._buries = subscription.settings.dead_letter_expired

    def probes(self) -> Iterable[Cursor]:
        return () if self._buries else self.places

    def wanted(self, draft: Draft) -> Iterable[Wanted | tuple[int, int]]:
        part = self._cursor[0]
        ledger, log = draft.ledger(self._cursor), draft.log(part)
        yield from [(part, seq) for seq in ledger.opened(self._step) if seq not in log]
        if self._buries:
            stop = min(draft.last(part) + 1, ledger.frontier + self._step)
            if any(seq not in log for seq in range(ledger.frontier, stop)):
                yield Wanted(part, ledger.frontier, stop, limits.READ_AHEAD_BYTES)

    def decide(self, draft: Draft) -> object:
        part = self._cursor[0]
        ledger = draft.ledger(self._cursor)
        before = ledger.frontier
        ledger.pass_over(min(draft.live_from.get(self._cursor, 0), draft.last(part) + 1))
        ledger.expire(draft.log(part), draft.last(part), self._step)
        return AGAIN if ledger.frontier > before and ledger.frontier <= draft.last(part) else None
