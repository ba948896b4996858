"""Whole runs: that a sound broker passes, and that a broken one does not."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rowlock.errors import InvalidArgument
from rowlock.simulate.main import run
from rowlock.simulate.options import SimulateOptions

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _records_go_with_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is not fine keeps its records."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


KEYS = ["ok", "published", "claimed", "settled", "redelivered", "expired", "dead_lettered", "kills", "invariants"]


def _told(capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, dict[str, Any], str]:
    """The exit code, what a machine is told, and what is said of what is wrong."""
    chosen = {"producers": 2, "consumers": 4, "seconds": 2, "drain_seconds": 3, "json": True} | options
    code = run(SimulateOptions(**chosen))
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def test_a_sound_broker_passes(capsys: pytest.CaptureFixture[str]) -> None:
    code, told, complaints = _told(capsys, drain_seconds=30)
    assert (code, told["ok"]) == (0, True), complaints
    assert list(told) == KEYS
    assert [one["number"] for one in told["invariants"]] == list(range(1, 9))
    assert all(one["checked"] > 0 and one["violations"] == 0 for one in told["invariants"])
    assert 0 < told["settled"] <= told["claimed"]


def test_people_are_shown_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SimulateOptions(producers=2, consumers=4, seconds=1, faults="duplicates")) == 0
    shown = capsys.readouterr().out
    assert "publishing, claiming, settling" in shown
    assert "no sequence is used twice" in shown


@pytest.mark.parametrize(
    ("broken", "number", "faults"),
    [
        ("lost", 1, ""),
        ("forgets_receives", 2, ""),
        ("two_holders", 3, ""),
        ("unfenced", 4, "consumers"),
        ("settled_come_back", 5, ""),
        ("after_expiry", 5, "expiry"),
        ("no_order", 6, ""),
        ("incomplete", 7, ""),
    ],
)
def test_a_broken_ledger_is_caught(capsys: pytest.CaptureFixture[str], broken: str, number: int, faults: str) -> None:
    seconds = 5 if faults else 2
    code, told, complaints = _told(
        capsys, child_prelude=f"tests.simulate.broken.{broken}", faults=faults, seconds=seconds
    )
    violated = {one["number"] for one in told["invariants"] if one["violations"]}
    assert (code, told["ok"]) == (1, False)
    assert number in violated, complaints
    assert f"Invariant {number}: " in complaints


def test_a_fault_that_never_happened_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    code, told, complaints = _told(capsys, faults="consumers", child_prelude="tests.simulate.broken.no_deaths")
    assert (code, told["ok"]) == (1, False)
    assert not any(one["violations"] for one in told["invariants"])
    assert "The fault 'consumers' was asked for and never happened." in complaints


def test_a_database_of_somebody_else_is_not_killed(capsys: pytest.CaptureFixture[str]) -> None:
    code, told, complaints = _told(capsys, faults="database", store="postgresql://somebody@nowhere.invalid/theirs")
    assert (code, told["ok"], told["published"]) == (1, False, 0)
    assert "where it started it itself" in complaints
    assert "Invariant 1 was checked on nothing." in complaints


def test_a_broker_process_that_fails_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    prelude = "tests.simulate.broken.fails_at_start"
    code, _, complaints = _told(capsys, faults="brokers", seconds=4, child_prelude=prelude)
    assert code == 1
    assert "ended by itself with 1: no, not again" in complaints


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"faults": "earthquakes"}, "'earthquakes' is not a fault"),
        ({"producers": 0}, "producers is 0"),
        ({"consumers": 65}, "consumers is 65"),
        ({"seconds": 0.5}, "seconds is 0.5"),
        ({"store": "oracle://db"}, "oracle is no kind of database"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        run(SimulateOptions(**options))
