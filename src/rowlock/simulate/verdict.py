"""The verdict: every invariant, as far as it can be judged from what clients were told.

A judge counts what it looked at and writes a sentence about whatever must not be. It accuses only where no order of
events could explain the records: who asked before a moment and was answered after it may have been served before it or
after it.
"""

from __future__ import annotations

from msgspec import Struct, field

from rowlock.simulate import held, kept, ordered
from rowlock.simulate.history import History


class Judged(Struct):
    """One invariant."""

    number: int
    checked: int
    violations: list[str] = field(default_factory=list)


def judge(history: History) -> list[Judged]:
    """All invariants, by number."""
    judges = {
        1: kept.durable,
        2: kept.never_forgotten,
        3: held.one_holder,
        4: held.fenced,
        5: held.over,
        6: ordered.in_order,
        7: kept.complete,
        8: kept.used_once,
    }
    found = {number: one(history) for number, one in judges.items()}
    return [Judged(number, finding.checked, finding.violations) for number, finding in found.items()]
