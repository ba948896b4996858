"""The worked examples of docs/design.md are made of the figures in its tables."""

from __future__ import annotations

import re

import pytest
from tools import coefficients

from .pages import ROOT

TEXT = (ROOT / "docs/design.md").read_text("utf-8")
POSTGRES = TEXT.partition("PostgreSQL 18.6:")[2].partition("MariaDB 10.11:")[0]
LINES = re.findall(r"^\|.*$", POSTGRES, re.MULTILINE)
HEADER, _, *ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LINES]
SUM = re.compile(r"^\| (broker processor time|database processor time|log) \| [\d,]+ x \((.*?)\)", re.MULTILINE)
COLUMNS = {
    "broker processor time": "broker CPU us/message",
    "database processor time": "database CPU us/message",
    "log": "log B/message",
}


def section(heading: str) -> str:
    return TEXT.partition(f"### Worked example: {heading}")[2].partition("\n### ")[0].partition("\n## ")[0]


def column(batch: str, name: str) -> list[float]:
    """What publish, claim and settle, and remove cost, for bodies of 1 KiB."""
    at = HEADER.index(name)
    return [float(row[at].replace(",", "")) for row in ROWS if row[:2] == ["1,024", batch]]


def test_the_table_is_of_the_tool() -> None:
    assert tuple(HEADER) == coefficients.HEADINGS
    assert len(ROWS) == 3 * len(coefficients.SIZES) * len(coefficients.SETTINGS)


@pytest.mark.parametrize(("heading", "batch"), [("10,000 messages", "64 callers"), ("1,000,000 messages", "1,000")])
def test_sums_are_of_the_table(heading: str, batch: str) -> None:
    sums = SUM.findall(section(heading))
    assert [name for name, _ in sums] == list(COLUMNS)
    for name, parts in sums:
        for part, measured in zip(parts.split(" + "), column(batch, COLUMNS[name]), strict=True):
            given = float(part.replace(",", ""))
            assert given == pytest.approx(measured, abs=0.5), f"{name}: {part} is not {measured}"
