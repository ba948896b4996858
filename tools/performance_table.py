"""Write the tables of docs/performance.md, between its markers, from the reports in docs/bench/*.json.

A report is what `rowlock bench --json` prints: `rowlock bench --store all --output docs/bench/2-cores.json`, then
`python -m tools.performance_table`. With `--check` nothing is written, and the exit code says whether the tables are
those of the reports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rowlock.bench.measure import Aim, Measure
from rowlock.bench.report import Report

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/performance.md"
REPORTS = ROOT / "docs/bench"
BEGIN = "<!-- tables: begin, written by tools/performance_table.py -->\n"
END = "<!-- tables: end -->\n"
PREFIXES = {"PostgreSQL": "", "MariaDB": "mariadb_", "SQLite": "sqlite_"}
HEADINGS = "| measure | reached | to reach | Rowlock | beside it | unit | at |\n|---|---:|---:|---:|---:|---|---|\n"


def reports(folder: Path = REPORTS) -> list[Report]:
    return [msgspec.json.decode(path.read_bytes(), type=Report) for path in sorted(folder.glob("*.json"))]


def tables(found: Sequence[Report]) -> str:
    """One section for each database of each report."""
    sections = [section for report in found for section in _sections(report)]
    return "\n".join(sections) if sections else "No report has been stored yet.\n"


def _sections(report: Report) -> Iterator[str]:
    machine = report.machine
    for database in machine.databases:
        name = next((known for known in PREFIXES if database.startswith(known)), database)
        rows = [_row(one, PREFIXES.get(name, "")) for one in report.measures if _database_of(one) == name]
        if rows:
            place = f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, Python {machine.python}"
            yield f"### {database}\n\nCommit `{report.commit[:12]}`; {place}.\n\n{HEADINGS}{''.join(rows)}"


def _database_of(one: Measure) -> str:
    return next(name for name, prefix in reversed(PREFIXES.items()) if one.name.startswith(prefix))


def _row(one: Measure, prefix: str) -> str:
    reached = "not measured" if one.value is None else _number(one.value)
    if one.value is not None and not Aim(one.name, one.target, one.unit).met_by(one.value):
        reached = f"**{reached}**"
    numbers = f"{reached} | {one.target} | {_number(one.ours)} | {_number(one.baseline)}"
    return f"| `{one.name.removeprefix(prefix)}` | {numbers} | {one.unit} | {one.reason or one.scale} |\n"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def filled(page: str, text: str) -> str:
    """The page with that text between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{text}{END}{after}"


def main(arguments: Sequence[str]) -> int:
    page = PAGE.read_text("utf-8")
    wanted = filled(page, tables(reports()))
    if "--check" in arguments:
        return int(page != wanted)
    PAGE.write_text(wanted, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
