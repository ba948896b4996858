"""The documents point at what exists, and their generated parts are those of their sources."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tools import performance_table

from rowlock.bench import engine
from rowlock.bench.measure import SIZES, Measure
from rowlock.server import metrics

from .pages import FENCE, PAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
MODULE = re.compile(r"`((?:\w+/)*\w+\.(?:py|sql))`")
RECORDS = sorted((ROOT / "docs/adr").glob("*.md"))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    known = [
        str(path.relative_to(ROOT)) for folder in ("src", "tools", "tests") for path in (ROOT / folder).rglob("*.*")
    ]
    for name in MODULE.findall(prose(page)):
        assert any(f"/{path}".endswith(f"/{name}") for path in known), name


def test_records_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_record_says_what_it_must(record: Path) -> None:
    text = record.read_text("utf-8")
    assert text.startswith(f"# {int(record.name[:4])}. ")
    for part in ("\nStatus: ", "\n## Context\n", "\n## Decision\n"):
        assert part in text


def test_each_measure_is_explained() -> None:
    rows = re.findall(r"^\| (`.*?) \|", prose(performance_table.PAGE), re.MULTILINE)
    explained = set(re.findall(r"`(\w+)`", "".join(rows)))
    measured = {aim.name for bench in engine.BENCHES for aim in bench.aims}
    ends = "|".join(SIZES)
    assert {re.sub(f"_({ends})$", "", name) for name in measured} <= explained


def test_tables_are_those_of_the_reports() -> None:
    assert performance_table.main(["--check"]) == 0, "run: python -m tools.performance_table"


def test_a_row_says_what_missed() -> None:
    measure = Measure(
        name="publish_1000_1kb", value=0.5, target=">= 0.7", unit="x", baseline=2, ours=1, scale="all", reason=None
    )
    assert performance_table._row(measure, "") == "| `publish_1000_1kb` | **0.5** | >= 0.7 | 1 | 2 | x | all |\n"


def test_metrics_that_are_named_exist() -> None:
    source = metrics.__doc__ or ""
    with open(metrics.__file__, encoding="utf-8") as file:  # noqa: PTH123
        source += file.read()
    for name in re.findall(r"`rowlock_(\w+?)(?:_total)?[`{ ]", prose(ROOT / "docs/design.md")):
        assert name in source or name in {"queues", "subscriptions", "messages"}, name
