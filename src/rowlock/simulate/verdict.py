"""The verdict: every invariant, as far as it can be judged from what clients were told.

A judge counts what it looked at and collects sentences about what must not be. It accuses only where no order of events
could explain the records: whoever asked before and was answered after a moment may have been served on either side of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from msgspec import Struct, field

from rowlock.simulate.history import Action, HandOut, History, Message
from rowlock.simulate.records import EXTEND, OK, REFUSED, RELEASE, SETTLE, STALE
from rowlock.simulate.streams import MAX_RECEIVES, Stream


class Judged(Struct):
    """One invariant."""

    number: int
    checked: int = 0
    violations: list[str] = field(default_factory=list)

    def check(self, holds: bool, sentence: Callable[[], str]) -> None:
        self.checked += 1
        if not holds:
            self.violations.append(sentence())


def judge(history: History) -> list[Judged]:
    """All invariants, by number."""
    judges = (_durable, _never_forgotten, _one_holder, _fenced, _over, _in_order, _complete, _used_once)
    return [judge(history, Judged(number)) for number, judge in enumerate(judges, 1)]


# 1: an acknowledged publish is durable


def _durable(history: History, judged: Judged) -> Judged:
    for stray in history.unpublished:
        judged.check(False, lambda stray=stray: f"{_told(stray)} was never published")  # type: ignore[misc]
    for message in _acknowledged(history):
        stream = history.streams.of(message.topic)
        missing = [name for name in stream.subscriptions if not _is_done(message, name, stream)]
        # What one subscription has and another has not was stored, and removed too early: that is invariant 7.
        lost = len(missing) == len(stream.subscriptions)
        judged.check(not lost, lambda message=message, missing=missing: _lost(message, missing))  # type: ignore[misc]
        ids = {one.id for one in message.acknowledged} | {
            one.handed.id for given in message.handed.values() for one in given
        }
        judged.check(len(ids) == 1, lambda name=message.name, ids=ids: f"{name} was stored more than once: {sorted(ids)}")  # type: ignore[misc]
    for one in history.hand_outs():
        if not one.handed.intact or one.handed.key != one.message.key:
            judged.check(False, lambda one=one: f"{_told(one)} is not what was published")  # type: ignore[misc]
    return judged


def _acknowledged(history: History) -> list[Message]:
    return [message for message in history.messages.values() if message.acknowledged]


def _is_done(message: Message, subscription: str, stream: Stream) -> bool:
    """Whether it was settled, dead-lettered, or expired; it is enough that a settle may have happened."""
    given = message.handed.get(subscription, [])
    if any(settle.may_have_happened for one in given for settle in one.settles):
        return True
    if stream.dead_letter is not None and stream.dead_letter in message.handed:
        return any(
            settle.may_have_happened for one in message.handed[stream.dead_letter] for settle in one.settles
        )
    return message.expires_in is not None


def _lost(message: Message, missing: list[str]) -> str:
    stored = message.acknowledged[0]
    handed = sum(len(message.handed.get(name, [])) for name in missing)
    return (
        f"{message.name} was acknowledged as {_place(message.topic, stored.partition, stored.sequence)} at "
        f"{_at(message.publishes[0].ended)}, was handed out {handed} times, and was never settled by {', '.join(missing)}"
    )


# 2: what was handed out is never new again, and what is done never comes back


def _never_forgotten(history: History, judged: Judged) -> Judged:
    for given in _by_subscription(history):
        buried = _dead_lettered_at(history, given[0])
        for earlier, later in zip(given, given[1:], strict=False):
            if earlier.at < later.asked:
                judged.check(
                    later.receives > earlier.receives,
                    lambda a=earlier, b=later: f"{_told(b)} though it had been handed out before: {_told(a)}",  # type: ignore[misc]
                )
        for one in given:
            judged.check(
                one.asked <= buried, lambda one=one: f"{_told(one)} after it had been handed out as a dead letter"  # type: ignore[misc]
            )
    return judged


def _dead_lettered_at(history: History, one: HandOut) -> float:
    """When somebody was first told that it is in the dead-letter queue."""
    dead = history.streams.read_by(one.subscription).dead_letter
    return min((copy.at for copy in one.message.handed.get(dead, [])), default=_NEVER) if dead else _NEVER


# 3: one holder at a time


def _one_holder(history: History, judged: Judged) -> Judged:
    for given in _by_subscription(history):
        for one in given:
            rivals = [other for other in given if other is not one and one.receives <= other.receives]
            clash = next((other for other in rivals if _clash(one, other)), None)
            judged.check(
                clash is None,
                lambda one=one, clash=clash: f"{_told(clash)} while it was held until {_at(one.held_until())}: {_told(one)}",  # type: ignore[misc]
            )
    return judged


def _clash(one: HandOut, other: HandOut) -> bool:
    """Whether `other`, which came later, came while `one` held the message for certain; a count of receives is told once."""
    if one.receives == other.receives:
        return one.at <= other.at
    return other.at < one.held_until()


# 4: only the holder settles


def _fenced(history: History, judged: Judged) -> Judged:
    for given in _by_subscription(history):
        stream = history.streams.read_by(given[0].subscription)
        for one in given:
            for action in one.actions:
                if action.outcome == OK and _is_stale(one, action, given, stream):
                    done = action.verb == SETTLE and _may_be_done(one, action, given, stream, history)
                    judged.check(done, lambda one=one, a=action: f"a stale {_of(a)} was accepted: {_told(one)}")  # type: ignore[misc]
                elif action.outcome == STALE and _is_held(one, action):
                    judged.check(False, lambda one=one, a=action: f"the holder's {_of(a)} was refused: {_told(one)}")  # type: ignore[misc]
                else:
                    judged.checked += action.outcome in (OK, STALE)
    return judged


def _is_stale(one: HandOut, action: Action, given: list[HandOut], stream: Stream) -> bool:
    """Whether somebody else had been handed the message before this was asked; or, where a late one counts for nothing,
    the hold had run out."""
    if any(other.receives > one.receives and other.at < action.began for other in given):
        return True
    if any(before.verb == RELEASE and before.outcome == OK and before.ended < action.began for before in _before(one, action)):  # type: ignore[operator]
        return True
    return (stream.keyed or action.verb != SETTLE) and action.began > one.run_out_by()


def _is_held(one: HandOut, action: Action) -> bool:
    given_up = any(before.verb != EXTEND for before in _before(one, action))
    return not given_up and action.ended is not None and action.ended < one.held_until(before=action)


def _may_be_done(one: HandOut, action: Action, given: list[HandOut], stream: Stream, history: History) -> bool:
    """Whether the message may have been done already, so that settling it once more is no error."""
    if stream.dead_letter is not None and stream.dead_letter in one.message.handed:
        return True
    if stream.expires_in is not None and one.message.expires_in == min(one.message.expires_in or 0, 60):
        return True
    if one.receives >= MAX_RECEIVES and stream.dead_letter is not None:
        return True
    settles = [settle for other in given for settle in other.settles if settle is not action]
    return any(
        settle.began < (action.ended or _NEVER) and settle.outcome not in (STALE, REFUSED) for settle in settles
    )


def _before(one: HandOut, action: Action) -> Iterable[Action]:
    for other in one.actions:
        if other is action:
            return
        yield other


# 5: nothing after its settle, and nothing after its expiry


def _over(history: History, judged: Judged) -> Judged:
    for given in _by_subscription(history):
        settled = min((one.settled_at for one in given if one.settled_at is not None), default=None)
        if settled is not None:
            again = next((one for one in given if one.asked > settled), None)
            judged.check(
                again is None,
                lambda again=again, settled=settled: f"{_told(again)} after it was settled at {_at(settled)}",  # type: ignore[misc]
            )
        expired = given[0].message.expired_by
        if expired is not None:
            late = next((one for one in given if one.asked > expired), None)
            judged.check(
                late is None,
                lambda late=late, expired=expired: f"{_told(late)} after it had expired at {_at(expired)}",  # type: ignore[misc]
            )
    return judged


# 6: order by key


def _in_order(history: History, judged: Judged) -> Judged:
    keys: dict[tuple[str, str], list[HandOut]] = defaultdict(list)
    for one in history.hand_outs():
        if one.message.key is not None and history.streams.read_by(one.subscription).keyed:
            keys[one.subscription, one.message.key].append(one)
    for given in keys.values():
        _judge_sequence(given, judged)
        _judge_holds(given, judged)
    return judged


def _judge_sequence(given: list[HandOut], judged: Judged) -> None:
    """What was asked for after a later message of the key had been handed out was skipped: it came out of order."""
    given.sort(key=lambda one: (one.handed.sequence, one.asked))
    skipped: HandOut | None = None
    """Among lower sequences, the one that was asked for last."""
    lower: list[HandOut] = []
    for at, one in enumerate(given):
        if at and given[at - 1].handed.sequence != one.handed.sequence:
            last = [other for other in lower if other.handed.sequence == given[at - 1].handed.sequence]
            candidates = [*last, *([skipped] if skipped else [])]
            skipped = max(candidates, key=lambda other: other.asked)
        lower.append(one)
        if skipped is None:
            continue
        wrong = skipped.asked > one.at and not _same_answer(one, skipped, lower)
        judged.check(not wrong, lambda one=one, other=skipped: f"{_told(one)} before {_told(other)}, which precedes it")  # type: ignore[misc]


def _same_answer(one: HandOut, skipped: HandOut, lower: list[HandOut]) -> bool:
    """Whether the answer with the later message held the earlier one, too."""
    return any(other.answer == one.answer and other.message is skipped.message for other in lower)


def _judge_holds(given: list[HandOut], judged: Judged) -> None:
    """None of a key is handed out while another is held, unless in one answer."""
    given.sort(key=lambda one: one.asked)
    waiting = sorted(given, key=lambda one: one.at, reverse=True)
    held: list[tuple[float, int, HandOut]] = []
    for one in given:
        while waiting and waiting[-1].at < one.asked:
            holder = waiting.pop()
            heappush(held, (holder.held_until(), id(holder), holder))
        while held and held[0][0] <= one.at:
            heappop(held)
        other = next((holder for _, _, holder in held if holder.answer != one.answer), None)
        judged.check(
            other is None,
            lambda one=one, other=other: f"{_told(one)} while another message of its key was held: {_told(other)}",  # type: ignore[misc]
        )


# 7: no row is removed before every subscription is done


def _complete(history: History, judged: Judged) -> Judged:
    for message in _acknowledged(history):
        stream = history.streams.of(message.topic)
        if len(stream.subscriptions) < 2:
            continue
        done = {name: _is_done(message, name, stream) for name in stream.subscriptions}
        missing = [name for name, is_done in done.items() if not is_done]
        complete = not missing or not any(done.values())
        judged.check(complete, lambda message=message, missing=missing: _lost(message, missing))  # type: ignore[misc]
    return judged


# 8: no sequence is used twice


def _used_once(history: History, judged: Judged) -> Judged:
    users: dict[tuple[str, int, int], str] = {}

    def use(topic: str, partition: int, sequence: int, id_: str) -> None:
        user = users.setdefault((topic, partition, sequence), id_)
        judged.check(
            user == id_, lambda: f"{_place(topic, partition, sequence)} was used twice: by {user} and by {id_}"
        )

    for message in _acknowledged(history):
        for stored in message.acknowledged:
            if stored.sequence is not None:
                use(message.topic, stored.partition, stored.sequence, stored.id)
    for one in history.hand_outs():
        stream = history.streams.read_by(one.subscription)
        if stream.partitions == 1:
            use(stream.topic, 0, one.handed.sequence, one.handed.id)
    return judged


# Words

_NEVER = float("inf")


def _by_subscription(history: History) -> Iterable[list[HandOut]]:
    """The hand-outs of each message to each subscription, in the order of their answers."""
    return (given for message in history.messages.values() for given in message.handed.values() if given)


def _told(one: HandOut | None) -> str:
    if one is None:
        return "nothing"
    return (
        f"{one.message.name} ({one.subscription}, sequence {one.handed.sequence}, received {one.receives} times) "
        f"handed out at {_at(one.asked)} to {_at(one.at)} for {one.timeout} s by {one.answer[0]}"
    )


def _of(action: Action) -> str:
    return f"{action.verb} at {_at(action.began)} to {_at(action.ended)}"


def _place(topic: str, partition: int, sequence: int | None) -> str:
    return f"{topic}/{partition}/{'scheduled' if sequence is None else sequence}"


def _at(moment: float | None) -> str:
    return "no answer" if moment is None else f"{moment:.3f}"
