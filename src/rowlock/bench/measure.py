"""What a benchmark says: one number, what it should reach, and what it was measured at."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from rowlock.bench.ground import Ground

_SIGNS = {">=": operator.ge, "<=": operator.le}


class Aim(Struct, frozen=True):
    """A number that is to be measured, under a fixed name."""

    name: str
    target: str
    """Sign, space, plain number: ">= 0.7"."""
    unit: str

    def met_by(self, value: float) -> bool:
        sign, number = self.target.split()
        return bool(_SIGNS[sign](value, float(number)))


class Finding(Struct, frozen=True, kw_only=True):
    """What was found for an aim."""

    value: float | None
    baseline: float | None = None
    ours: float | None = None
    scale: str = ""
    """How much of what, so that a quick run cannot be taken for a full one; empty where nothing was tried."""
    reason: str | None = None
    """Why there is no value."""


class Measure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An aim with its finding: one entry of the report."""

    name: str
    value: float | None
    target: str
    unit: str
    baseline: float | None
    ours: float | None
    scale: str
    reason: str | None = None


class Bench(Struct, frozen=True):
    """A group of aims that are measured together, on a database of their own."""

    title: str
    aims: Sequence[Aim]
    run: Callable[[Ground], Awaitable[Mapping[str, Finding]]]


SIZES = {"100b": 100, "1kb": 1024}
"""Bodies, by the ending of a measure's name."""


def per_size(name: str, target: str, unit: str) -> list[Aim]:
    """One aim for each size of bodies."""
    return [Aim(f"{name}_{size}", target, unit) for size in SIZES]


def measure(aim: Aim, finding: Finding, prefix: str = "") -> Measure:
    return Measure(
        name=prefix + aim.name,
        value=_rounded(finding.value),
        target=aim.target,
        unit=aim.unit,
        baseline=_rounded(finding.baseline),
        ours=_rounded(finding.ours),
        scale=finding.scale,
        reason=finding.reason,
    )


def _rounded(number: float | None) -> float | None:
    """Four digits: what is beyond them is noise."""
    return None if number is None else float(f"{number:.4g}")
