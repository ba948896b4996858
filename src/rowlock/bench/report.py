"""The report: as a table for people, as JSON for programs."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
from msgspec import Struct
from rich.table import Table

from rowlock.bench.measure import Aim, Measure
from rowlock.version import VERSION


class Machine(Struct):
    """What it ran on."""

    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    databases: list[str]


class Report(Struct):
    commit: str
    machine: Machine
    measures: list[Measure]


def machine(databases: list[str]) -> Machine:
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        databases=databases,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str:
    """The commit of the source tree that runs; of an installed package, its version."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return VERSION
    return done.stdout.strip() if done.returncode == 0 else VERSION


def as_table(report: Report) -> Table:
    table = Table(title=f"Rowlock {report.commit[:12]} on {', '.join(report.machine.databases)}")
    for heading in ("measure", "value", "target", "unit", "ours", "baseline", ""):
        table.add_column(heading, justify="right" if heading in {"value", "target", "ours", "baseline"} else "left")
    for one in report.measures:
        table.add_row(
            one.name, _number(one.value), one.target, one.unit, _number(one.ours), _number(one.baseline), _verdict(one)
        )
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _verdict(one: Measure) -> str:
    if one.value is None:
        return f"[yellow]{one.reason}[/]"
    return "[green]met[/]" if Aim(one.name, one.target, one.unit).met_by(one.value) else "[red]not met[/]"


def failed(measures: Sequence[Measure]) -> bool:
    """Whether something was not measured that can be; what cannot has a scale, and a reason beside it."""
    return any(one.value is None and not one.scale for one in measures)
