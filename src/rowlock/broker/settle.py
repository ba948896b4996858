"""Settle, extend, release: what holders do with the messages they hold; and giving back what nobody saw."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby

from rowlock.broker.catalog import Subscription
from rowlock.broker.draft import Draft
from rowlock.broker.work import Work
from rowlock.ids import Receipt
from rowlock.ledger.ledger import Ledger
from rowlock.ledger.rules import Verdict
from rowlock.settings import Backoff, Exponential
from rowlock.store.port import Cursor


class _Holding(Work):
    """A work on receipts of one subscription, in one channel. The result: a verdict for each receipt."""

    def __init__(self, subscription: Subscription, receipts: Sequence[Receipt]):
        super().__init__()
        parts = {receipt.part for receipt in receipts}
        self.places = subscription.places[receipts[0].part]
        if len(parts) > 1:
            self.places = {cursor: place for part in parts for cursor, place in subscription.places[part].items()}
        self._sub = subscription.id
        self._receipts = receipts
        self.messages = len(receipts)

    def decide(self, draft: Draft) -> list[Verdict]:
        ledgers: dict[Cursor, Ledger] = {cursor: draft.ledger(cursor) for cursor in self.places}
        return [self._judge(ledgers[part, sub], seq, claim) for sub, part, seq, claim in self._receipts]

    def _judge(self, ledger: Ledger, seq: int, claim: int) -> Verdict:
        raise NotImplementedError


class Settle(_Holding):
    """The messages are done."""

    verb = "settle"

    def decide(self, draft: Draft) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for part, receipts in groupby(self._receipts, key=_part):
            ledger = draft.ledger((part, self._sub))
            verdicts += ledger.settle_all([(seq, claim) for _, _, seq, claim in receipts])
        return verdicts


class Extend(_Holding):
    """Hold the messages for so long from now."""

    verb = "extend"

    def __init__(self, subscription: Subscription, receipts: Sequence[Receipt], timeout_ms: int):
        super().__init__(subscription, receipts)
        self._timeout_ms = timeout_ms

    def _judge(self, ledger: Ledger, seq: int, claim: int) -> Verdict:
        return ledger.extend(seq, claim, ledger.at + self._timeout_ms)


class Release(_Holding):
    """Give the messages up, to be handed out again after a delay (None: by the subscription's backoff)."""

    verb = "release"

    def __init__(self, subscription: Subscription, receipts: Sequence[Receipt], delay_ms: int | None):
        super().__init__(subscription, receipts)
        self._delay_ms = delay_ms
        self._backoff = subscription.settings.backoff

    def _judge(self, ledger: Ledger, seq: int, claim: int) -> Verdict:
        delay = self._delay_ms
        if delay is None:
            delay = backoff_ms(self._backoff, ledger.receives_of(seq), random.random())
        return ledger.release(seq, claim, ledger.at + delay)


class GiveBack(_Holding):
    """The messages never reached the one they were handed to."""

    verb = "give back"

    def _judge(self, ledger: Ledger, seq: int, claim: int) -> Verdict:
        return ledger.give_back(seq, claim)


def _part(receipt: Receipt) -> int:
    return receipt.part


def backoff_ms(backoff: Backoff | None, receives: int, chance: float) -> int:
    """How long a message waits that was received so often; `chance` lies between 0 and 1."""
    if backoff is None:
        return 0
    if not isinstance(backoff, Exponential):
        return int(backoff.seconds * 1000)
    seconds = backoff.seconds
    for _ in range(receives - 1):
        seconds *= backoff.factor
        if seconds >= backoff.max_seconds:
            break
    return int(min(seconds, backoff.max_seconds) * (1 - backoff.jitter * chance) * 1000)
