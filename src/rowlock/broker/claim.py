"""Claim: a cycle hands out messages of one subscription to one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rowlock import limits
from rowlock.broker.catalog import Source, Subscription
from rowlock.broker.cycle import AGAIN, Refusal
from rowlock.broker.draft import Draft
from rowlock.broker.work import Work, step_of
from rowlock.errors import InFlightLimit
from rowlock.ledger.ledger import Ledger
from rowlock.ledger.rules import Run
from rowlock.model import Claimed
from rowlock.store.port import Cursor, Stored

_LARGE_MESSAGE_BYTES = limits.CYCLE_BYTES // limits.CLAIM_BATCH_MESSAGES
FRUITLESS_TURNS = 3


class _Handed(NamedTuple):
    """A run that was handed out, with its messages."""

    cursor: Cursor
    run: Run
    messages: list[Stored]


class Claim(Work):
    """Hand out up to `limit` messages from these sources, which lie in one channel. The result: `Claimed` messages."""

    verb = "claim"
    rank = 9

    def __init__(
        self,
        subscription: Subscription,
        sources: Sequence[Source],
        limit: int,
        timeout_ms: int,
        give_back: Callable[[list[Claimed]], None],
    ):
        super().__init__()
        self.subscription = subscription
        self.places = subscription.places[sources[0].part]
        if len(sources) > 1:
            self.places = {cursor: place for one in sources for cursor, place in subscription.places[one.part].items()}
        self._limit = self.messages = limit
        self._timeout_ms = timeout_ms
        self._give_back = give_back
        self._large = subscription.largest_bytes > _LARGE_MESSAGE_BYTES
        self._demand = min(limit, step_of(subscription.largest_bytes, limit))
        self._fruitless = 0
        self._passing = False
        """It found nothing but expired messages so far: look for the first live one."""
        self.claim = 0

    def is_idle(self, draft: Draft) -> bool:
        for cursor in self.places:
            ledger = draft.ledger(cursor)
            if ledger.open or ledger.frontier <= draft.last(cursor[0]):
                return False
        return True

    def probes(self) -> Iterable[Cursor]:
        return self.places if self._passing and not self.subscription.settings.dead_letter_expired else ()

    def demand(self, draft: Draft) -> None:
        for cursor in self.places:
            draft.demands[cursor] = draft.demands.get(cursor, 0) + self._demand

    def decide(self, draft: Draft) -> object:
        self.claim = draft.stamp
        ledgers = {cursor: draft.ledger(cursor) for cursor in self.places}
        room = self.subscription.settings.max_in_flight - self._in_flight(draft)
        if room <= 0:
            return Refusal(
                InFlightLimit(
                    f"{self.subscription.name!r} has {self.subscription.settings.max_in_flight} messages in flight, "
                    "which is its limit: settle some first."
                )
            )
        before = [(ledger.frontier, ledger.outstanding) for ledger in ledgers.values()]
        handed: list[_Handed] = []
        left = min(self._limit, room)
        for cursor, ledger in ledgers.items():
            for given in self._hand_out(draft, cursor, ledger, left):
                handed.append(given)
                left -= given.run.stop - given.run.start
        if handed:
            return handed
        moved = before != [(ledger.frontier, ledger.outstanding) for ledger in ledgers.values()]
        return self._nothing(draft, ledgers, moved=moved)

    def _in_flight(self, draft: Draft) -> int:
        """Over all of the subscription's ledgers that are known here, this claim's own or not."""
        remembered = [draft.memory.ledgers.get(cursor) for cursor in self.subscription.cursors]
        return sum(one.ledger.held for one in remembered if one is not None)

    def _hand_out(self, draft: Draft, cursor: Cursor, ledger: Ledger, limit: int) -> list[_Handed]:
        if limit <= 0:
            return []
        part = cursor[0]
        ledger.pass_over(draft.live_from.get(cursor, 0))
        log: Mapping[int, Stored] = draft.log(part)
        if self._large:
            log = _within(log, ledger, limit)
        visible_at = ledger.at + self._timeout_ms
        runs = ledger.claim(log, draft.last(part), limit, visible_at, draft.stamp)
        return [_Handed(cursor, run, [log[seq] for seq in range(run.start, run.stop)]) for run in runs]

    def _nothing(self, draft: Draft, ledgers: dict[Cursor, Ledger], *, moved: bool) -> object:
        """Nothing was found: whether that is the end, or what was looked at is only a part of what there is."""
        if all(ledger.frontier > draft.last(cursor[0]) or _is_blocked(ledger) for cursor, ledger in ledgers.items()):
            return []
        self._passing = True
        self._fruitless = 0 if moved else self._fruitless + 1
        if self._fruitless >= FRUITLESS_TURNS:
            return []
        if self._fruitless:
            draft.distrust(ledgers)
        return AGAIN

    def answer(self, result: object) -> None:
        claimed = result if result == [] else self._claimed(result)  # type: ignore[arg-type]
        super().answer(claimed)

    def abandoned(self, result: object) -> None:
        if isinstance(result, list) and result:
            self._give_back(result)

    def _claimed(self, handed: list[_Handed]) -> list[Claimed]:
        claimed: list[Claimed] = []
        sub, claim = self.subscription.id, self.claim
        for _, run, messages in handed:
            receives, first = run.receives, run.first_received
            claimed += [Claimed(one, receives, first, sub, claim) for one in messages]
        return claimed


def _is_blocked(ledger: Ledger) -> bool:
    """Whether busy messages keep back all others: a key fills the look-ahead, or a whole topic is one key."""
    if ledger.rules.order == "topic":
        return ledger.outstanding > len(ledger.dying)
    return ledger.open >= ledger.rules.look_ahead


def _within(log: Mapping[int, Stored], ledger: Ledger, limit: int) -> dict[int, Stored]:
    """The part of the log that one cycle may hand out where messages are large: a bounded number of bytes."""
    room = limits.CYCLE_BYTES
    near: dict[int, Stored] = {}
    for seq in [*ledger.opened(limit), *range(ledger.frontier, ledger.frontier + limit)]:
        message = log.get(seq)
        if message is None:
            continue
        room -= message.size
        if room < 0 and near:
            break
        near[seq] = message
    return near
