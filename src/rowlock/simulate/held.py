"""What a holder may rely on: invariants 3 (one holder), 4 (only the holder settles), 5 (nothing after the end)."""

from __future__ import annotations

from rowlock.simulate.finding import Finding
from rowlock.simulate.history import NEVER, Action, HandOut, History, Message, at
from rowlock.simulate.records import EXTEND, OK, SETTLE, STALE
from rowlock.simulate.streams import Stream


def one_holder(history: History) -> Finding:
    """While somebody holds a message for certain, nobody else is handed it."""
    finding = Finding()
    for given in history.by_subscription():
        for one in given:
            finding.checked += 1
            for other in given:
                if other is not one and _intrudes(other, one):
                    finding.accuse(f"{other} while it was held until {at(one.held_until())}: {one}")
    return finding


def _intrudes(other: HandOut, one: HandOut) -> bool:
    """Whether `other` came after `one`, and while it held. Receives are counted: the same count is never told twice."""
    if other.receives == one.receives:
        return (other.at, other.answer) > (one.at, one.answer)
    return other.receives > one.receives and one.asked < other.at < one.held_until()


def fenced(history: History) -> Finding:
    """The holder's word counts, and nobody else's."""
    finding = Finding()
    for given in history.by_subscription():
        stream = history.streams.read_by(given[0].subscription)
        for one in given:
            for action in one.actions:
                finding.checked += action.outcome in (OK, STALE)
                if action.outcome == OK and _is_stale(one, action, given, stream):
                    if action.verb != SETTLE or not _may_be_done(one.message, action, given, stream):
                        finding.accuse(f"A stale {action} was accepted: {one}")
                elif action.outcome == STALE and _is_held(one, action):
                    finding.accuse(f"The holder's {action} was refused: {one}")
    return finding


def _is_stale(one: HandOut, action: Action, given: list[HandOut], stream: Stream) -> bool:
    """Whether somebody else had been handed the message before this was asked for; or the hold had run out, where a
    late word counts for nothing."""
    if any(other.receives > one.receives and other.at < action.began for other in given):
        return True
    return (stream.keyed or action.verb != SETTLE) and action.began > one.run_out_by(before=action)


def _is_held(one: HandOut, action: Action) -> bool:
    """Whether it was the holder's for certain, who had not given it up."""
    earlier = one.actions[: one.actions.index(action)]
    given_up = any(before.verb != EXTEND for before in earlier)
    return not given_up and action.ended is not None and action.ended < one.held_until(before=action)


def _may_be_done(message: Message, action: Action, given: list[HandOut], stream: Stream) -> bool:
    """Whether the message may have been done already: to settle that once more is no error, and changes nothing."""
    ended = NEVER if action.ended is None else action.ended
    if ended > message.expired_from or (stream.dead_letter is not None and stream.dead_letter in message.handed):
        return True
    settles = [settle for one in given for settle in one.settles if settle is not action]
    return any(settle.began < ended and settle.may_have_happened for settle in settles)


def over(history: History) -> Finding:
    """Nothing is handed out after it was settled, or after it expired."""
    finding = Finding()
    for given in history.by_subscription():
        settled = min((one.settled_at for one in given if one.settled_at is not None), default=None)
        if settled is not None:
            finding.checked += 1
            for one in [*given, *_dead_copies(history, given)]:
                if one.asked > settled:
                    finding.accuse(f"{one} after it was settled at {at(settled)}")
        expired = given[0].message.expired_by
        if expired is not None:
            finding.checked += 1
            for one in given:
                if one.asked > expired:
                    finding.accuse(f"{one} after it had expired at {at(expired)}")
    return finding


def _dead_copies(history: History, given: list[HandOut]) -> list[HandOut]:
    """Hand-outs as a dead letter, where its holder had settled it for certain: a late settle may find it moved."""
    dead = history.streams.read_by(given[0].subscription).dead_letter
    if dead is None or not any(
        settle.outcome == OK and settle.ended is not None and settle.ended < one.held_until(before=settle)
        for one in given
        for settle in one.settles[:1]
    ):
        return []
    return given[0].message.handed.get(dead, [])
