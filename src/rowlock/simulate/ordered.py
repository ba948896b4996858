"""Invariant 6: a key's messages are handed out in sequence order, and none while another of the key is held, unless in
one answer to one caller."""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from itertools import groupby

from rowlock.simulate.finding import Finding
from rowlock.simulate.history import HandOut, History


def in_order(history: History) -> Finding:
    finding = Finding()
    keys: dict[tuple[str, str], list[HandOut]] = defaultdict(list)
    for one in history.hand_outs():
        if one.message.key is not None and history.streams.read_by(one.subscription).keyed:
            keys[one.subscription, one.message.key].append(one)
    for given in keys.values():
        _sequence(given, finding)
        _holds(given, finding)
    return finding


def _sequence(given: list[HandOut], finding: Finding) -> None:
    """A message that was handed out after a later one of its key was not done then: the later one came out of order."""
    lower: list[HandOut] = []
    latest = 0.0
    for _, same in groupby(sorted(given, key=_by_sequence), key=_by_sequence):
        group = list(same)
        for one in group:
            finding.checked += bool(lower)
            if latest > one.at:
                wrong = [other for other in lower if other.asked > one.at and not _in_answer(other, one, lower)]
                for other in wrong[:1]:
                    finding.accuse(f"{one} before {other}, which precedes it")
        lower += group
        latest = max(latest, *(one.asked for one in group))


def _by_sequence(one: HandOut) -> int:
    return one.handed.sequence


def _in_answer(other: HandOut, one: HandOut, lower: list[HandOut]) -> bool:
    """Whether the answer with the later message held the earlier one, too."""
    return any(before.answer == one.answer and before.message is other.message for before in lower)


def _holds(given: list[HandOut], finding: Finding) -> None:
    """Walks through the hand-outs in the order in which they were asked for, with those that are held by then."""
    waiting = sorted(given, key=lambda one: one.at, reverse=True)
    held: list[tuple[float, int, HandOut]] = []
    for one in sorted(given, key=lambda one: one.asked):
        while waiting and waiting[-1].at < one.asked:
            holder = waiting.pop()
            heappush(held, (holder.held_until(), id(holder), holder))
        while held and held[0][0] <= one.asked:
            heappop(held)
        finding.checked += 1
        for until, _, holder in held:
            if until > one.at and holder.answer != one.answer and holder.message is not one.message:
                finding.accuse(f"{one} while another message of its key was held: {holder}")
                break
