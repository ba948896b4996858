"""docs/invariants.md names tests that exist, for every invariant."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from .pages import ROOT

TEXT = (ROOT / "docs/invariants.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (\d+)\. [^\n]*\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def names_in(path: str) -> frozenset[str]:
    """The test functions in a file, those in classes included."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def test_there_are_ten() -> None:
    assert list(SECTIONS) == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("number", SECTIONS)
def test_each_names_a_test(number: str) -> None:
    assert NAMED.findall(SECTIONS[number])


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED.findall(TEXT))))
def test_what_is_named_exists(path: str, name: str) -> None:
    assert (ROOT / path).is_file()
    assert name in names_in(path)


def test_nothing_is_named_in_another_form() -> None:
    """A name that is not seen is not checked."""
    assert len(NAMED.findall(TEXT)) == TEXT.count("tests/")
