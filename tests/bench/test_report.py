"""The report: every row of the benchmark's table is there under its name, and a number that is missing says why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import structs

from rowlock.bench import main
from rowlock.bench.main import AREAS, BenchOptions, run
from rowlock.bench.measure import Aim, Bench, Finding, measure
from rowlock.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from rowlock.bench.ground import Ground

ROWS = {
    "publish_1000_100b": ">= 0.7",
    "publish_1000_1kb": ">= 0.7",
    "batches_100_100b": ">= 2",
    "batches_100_1kb": ">= 2",
    "batches_1000_100b": ">= 3",
    "batches_1000_1kb": ">= 3",
    "callers_64_100b": ">= 4",
    "callers_64_1kb": ">= 4",
    "callers_256_100b": ">= 8",
    "callers_256_1kb": ">= 8",
    "callers_1_100b": ">= 0.9",
    "callers_1_1kb": ">= 0.9",
    "snapshot_cycle_100b": ">= 0.9",
    "snapshot_cycle_1kb": ">= 0.9",
    "snapshot_extends": ">= 0.9",
    "backlog_1m_100b": ">= 0.9",
    "backlog_1m_1kb": ">= 0.9",
    "settle_random_120000": ">= 0.5",
    "fanout_10_100b": ">= 0.9",
    "fanout_10_1kb": ">= 0.9",
    "queues_1000_100b": ">= 0.6",
    "queues_1000_1kb": ">= 0.6",
    "two_brokers_sharing_100b": ">= 0.7",
    "two_brokers_sharing_1kb": ">= 0.7",
    "two_brokers_disjoint_100b": ">= 0.9",
    "two_brokers_disjoint_1kb": ">= 0.9",
    "idle_1000_statements": "<= 5",
    "idle_1000_cpu": "<= 2",
    "latency_p50_100b": "<= 2",
    "latency_p50_1kb": "<= 2",
}


def test_every_row_has_its_names_and_targets() -> None:
    aims = [aim for bench in AREAS["engine"] for aim in bench.aims]
    assert {aim.name: aim.target for aim in aims} == ROWS
    assert len(aims) == len(ROWS)


@pytest.mark.parametrize("target", sorted(set(ROWS.values())))
def test_targets_are_a_sign_a_space_and_a_plain_number(target: str) -> None:
    assert re.fullmatch(r"(>=|<=) \d+(\.\d+)?", target)


def test_a_target_is_met_at_its_own_value_and_not_beyond() -> None:
    assert Aim("a", ">= 0.7", "x").met_by(0.7)
    assert not Aim("a", ">= 0.7", "x").met_by(0.699)
    assert Aim("a", "<= 2", "x").met_by(2)
    assert not Aim("a", "<= 2", "x").met_by(2.01)


def test_numbers_are_rounded_to_four_digits() -> None:
    found = measure(Aim("a", ">= 1", "x"), Finding(value=1.23456, baseline=123456.0, ours=None), "sqlite_")
    assert (found.name, found.value, found.baseline, found.ours) == ("sqlite_a", 1.235, 123500.0, None)


def _areas(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr(main, "AREAS", {"engine": [bench]})


def _printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Standard output is JSON and nothing else."""
    printed: dict[str, Any] = msgspec.json.decode(capsys.readouterr().out)
    return printed


def test_the_report_as_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def found(_: Ground) -> dict[str, Finding]:
        return {"speed": Finding(value=2, ours=20, baseline=10, scale="small")}

    _areas(monkeypatch, Bench("one", [Aim("speed", ">= 3", "x messages/s")], found))
    output = tmp_path / "report.json"
    assert run(BenchOptions(only="engine", quick=True, json=True, store="sqlite", output=output)) == 0
    report = _printed(capsys)
    assert msgspec.json.decode(output.read_bytes()) == report
    assert set(report) == {"commit", "machine", "measures"}
    assert report["machine"]["databases"][0].startswith("SQLite")
    assert report["measures"] == [
        {
            "name": "sqlite_speed",
            "value": 2.0,
            "target": ">= 3",
            "unit": "x messages/s",
            "baseline": 10.0,
            "ours": 20.0,
            "scale": "small",
        }
    ]


def test_a_bench_that_fails_has_no_value_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fails(_: Ground) -> dict[str, Finding]:
        raise RuntimeError("the disk is on fire")

    _areas(monkeypatch, Bench("one", [Aim("speed", ">= 3", "x messages/s")], fails))
    assert run(BenchOptions(json=True, store="sqlite")) == 1
    (found,) = _printed(capsys)["measures"]
    assert found["value"] is None
    assert "the disk is on fire" in found["reason"]


def test_what_cannot_be_measured_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def cannot(_: Ground) -> dict[str, Finding]:
        return {"speed": Finding(value=None, scale="small", reason="there is no such thing here")}

    _areas(monkeypatch, Bench("one", [Aim("speed", ">= 3", "x messages/s")], cannot))
    assert run(BenchOptions(json=True, store="sqlite")) == 0
    assert _printed(capsys)["measures"][0]["reason"] == "there is no such thing here"


def test_a_quick_run_ends_in_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def never(ground: Ground) -> dict[str, Finding]:
        async with ground.broker("q") as broker:
            while True:
                await broker.claim("q", wait=20)

    _areas(monkeypatch, Bench("one", [Aim("speed", ">= 3", "x messages/s")], never))
    monkeypatch.setattr(main, "QUICK_SECONDS", 0.5)
    assert run(BenchOptions(quick=True, json=True, store="sqlite")) == 1
    assert "no time was left" in _printed(capsys)["measures"][0]["reason"]


def test_the_table_says_what_was_met(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def found(_: Ground) -> dict[str, Finding]:
        return {"fast": Finding(value=4), "slow": Finding(value=2)}

    aims = [Aim("fast", ">= 3", "x"), Aim("slow", ">= 3", "x")]
    _areas(monkeypatch, Bench("one", aims, found))
    monkeypatch.setenv("COLUMNS", "150")
    assert run(BenchOptions(store="sqlite")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("sqlite_fast" in line and "met" in line and "not met" not in line for line in lines)
    assert any("sqlite_slow" in line and "not met" in line for line in lines)


@pytest.mark.parametrize(("option", "value"), [("only", "boats"), ("store", "oracle")])
def test_what_is_unknown_is_refused(option: str, value: str) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(InvalidArgument, match=value):
        run(structs.replace(BenchOptions(), **options))
