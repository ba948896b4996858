"""Where a cycle's time goes: processor time per message, by phase of the cycle and by function.

The whole is measured without the profiler, whose shares then divide it: a profiler makes everything slower, small
functions most of all. What the event loop does in C (reading from sockets) it does not see, and so spreads over all.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.console import Group
from rich.table import Table

from rowlock.bench.engine import steps
from rowlock.bench.turns import Side, loop

if TYPE_CHECKING:
    from rowlock.bench.ground import Ground

BYTES = 100
FUNCTIONS = 20

WORKLOADS = {
    "1 caller, single messages": (1, 1),
    "64 callers, single messages": (64, 1),
    "1 caller, batches of 100": (1, 100),
    "1 caller, batches of 1,000": (1, 1_000),
}
"""Callers, and messages a call; each publishes, claims and settles."""

Function = tuple[str, str]
"""A module's file name with its folder, and a function in it."""

PHASES: dict[str, tuple[list[Function], list[Function]]] = {
    "callers: check, make works, receive answers": (
        [("rowlock/embedded.py", name) for name in ("publish", "claim", "settle")],
        [],
    ),
    "gather a batch": ([("broker/cycle.py", "_batch")], []),
    "survey: what is remembered": ([("broker/fetch.py", "survey")], []),
    "decide": ([("broker/cycle.py", "_decide")], []),
    "finish: encode what is written": (
        [("broker/draft.py", "finish"), ("postgres/arguments.py", "of_one"), ("postgres/arguments.py", "of_attempt")],
        [],
    ),
    "database call: driver and statements": (
        [
            (f"{store}/lane.py", name)
            for store in ("postgres", "sqlite", "mariadb")
            for name in ("attempt", "lock", "write")
        ],
        [("postgres/arguments.py", "of_one"), ("postgres/arguments.py", "of_attempt")],
    ),
    "commit in memory": ([("broker/draft.py", "committed")], []),
    "answer": ([("broker/cycle.py", "_finish")], []),
}
"""By phase: the functions whose time it is, with all that they call, and those to take away from that."""
REST = "event loop and everything else"


class Cost(Struct, frozen=True):
    """A function's own time, in microseconds of processor time per message, and how often it is called for one."""

    function: str
    us: float
    with_callees_us: float
    calls: float


class Profile(Struct, frozen=True):
    """All times are microseconds per message."""

    workload: str
    wall_us: float
    client_us: float
    server_us: float
    phases: dict[str, float]
    functions: list[Cost]


async def profile(ground: Ground, workload: str, seconds: float) -> Profile:
    callers, batch = WORKLOADS[workload]
    async with ground.broker("profiled") as broker:
        side = loop(steps.ours(broker, "profiled", steps.bodies_of(BYTES, batch)), callers)
        await side(seconds / 4)
        client, server = time.process_time(), ground.server.cpu_seconds()
        plain = await side(seconds)
        client, server = time.process_time() - client, ground.server.cpu_seconds() - server
        stats, messages = await _profiled(side, seconds)
    share = client / plain.messages / stats.total_tt * 1e6  # type: ignore[attr-defined]
    return Profile(
        workload=workload,
        wall_us=plain.seconds / plain.messages * 1e6,
        client_us=client / plain.messages * 1e6,
        server_us=server / plain.messages * 1e6,
        phases=_phases(stats, share),
        functions=_functions(stats, share, messages),
    )


async def _profiled(side: Side, seconds: float) -> tuple[pstats.Stats, int]:
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    done = await side(seconds)
    profiler.disable()
    return pstats.Stats(profiler), done.messages


def _named(stats: pstats.Stats) -> Mapping[Function, float]:
    """Time with callees, by function."""
    found: dict[Function, float] = {}
    for (path, _, name), (_, _, _, cumulative, _) in stats.stats.items():  # type: ignore[attr-defined]
        key = ("/".join(PurePath(path).parts[-2:]), name)
        found[key] = max(found.get(key, 0.0), cumulative)
    return found


def _phases(stats: pstats.Stats, share: float) -> dict[str, float]:
    cumulative = _named(stats)
    phases = {
        phase: share * (sum(cumulative.get(one, 0) for one in added) - sum(cumulative.get(one, 0) for one in taken))
        for phase, (added, taken) in PHASES.items()
    }
    phases[REST] = share * stats.total_tt - sum(phases.values())  # type: ignore[attr-defined]
    return phases


def _functions(stats: pstats.Stats, share: float, messages: int) -> list[Cost]:
    rows = sorted(stats.stats.items(), key=lambda row: -row[1][2])  # type: ignore[attr-defined]
    return [
        Cost(f"{'/'.join(PurePath(path).parts[-2:])}:{line} {name}", share * own, share * whole, calls / messages)
        for (path, line, name), (_, calls, own, whole, _) in rows[:FUNCTIONS]
    ]


def as_tables(found: list[Profile]) -> Group:
    return Group(*(table for one in found for table in (_phase_table(one), _function_table(one))))


def _phase_table(one: Profile) -> Table:
    title = (
        f"{one.workload}: {one.client_us:.1f} us of the broker process, {one.server_us:.1f} us of the database, "
        f"{one.wall_us:.1f} us by the clock"
    )
    table = Table("phase", "us per message", "%", title=title)
    for phase, us in one.phases.items():
        table.add_row(phase, f"{us:.2f}", f"{100 * us / one.client_us:.0f}")
    return table


def _function_table(one: Profile) -> Table:
    table = Table("function", "us per message", "with what it calls", "calls per message")
    for cost in one.functions:
        table.add_row(cost.function, f"{cost.us:.2f}", f"{cost.with_callees_us:.2f}", f"{cost.calls:.2f}")
    return table
