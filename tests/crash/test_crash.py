"""kill -9 of broker processes and of the database, and SIGSTOP of broker processes, under load, on every database.

What clients were told is written down by themselves and judged by the simulation's own model; see `rowlock.simulate`.
`make soak` runs these for as long as one asks, each time with another seed.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from rich.console import Console

from rowlock.localservers import ServerMissing
from rowlock.simulate.faults import CRASHED, KILLED, STOPPED
from rowlock.simulate.main import simulate
from rowlock.simulate.options import SimulateOptions
from rowlock.simulate.report import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(180)]


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def _survives(**options: Any) -> Outcome:
    """A run on a database of its own, with every invariant checked and none violated."""
    try:
        found = simulate(SimulateOptions(producers=4, consumers=8, json=True, **options), Console(quiet=True))
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    wrong = [f"{one.number}: {sentence}" for one in found.invariants for sentence in one.violations[:3]]
    assert not [*wrong, *found.troubles], f"seed {found.seed}, records in {found.records}"
    assert all(one.checked for one in found.invariants)
    return found


def test_brokers_and_the_database_are_killed_and_stopped_at_any_moment(store: str) -> None:
    found = _survives(store=store, seconds=9, faults="brokers,database,consumers,duplicates")
    assert min(found.kills[name] for name in (KILLED, STOPPED, CRASHED)) > 0


def test_brokers_die_in_the_middle_of_every_verb(store: str) -> None:
    found = _survives(store=store, seconds=7, child_prelude="tests.crash.dying")
    deaths = [name.split() for name in found.happened if name.startswith("died ")]
    assert {moment for _, moment, _ in deaths} == {"before", "during", "after"}
    assert {verb for _, _, verb in deaths} == {"publish", "claim", "settle"}
