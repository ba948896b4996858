"""The command line as it is called, on a SQLite file of each test's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from rowlock.cli import app

if TYPE_CHECKING:
    from typer.testing import Result


class Rowlock:
    """`rowlock(...)` runs a command; a code other than the expected one fails the test with what was printed."""

    def __init__(self, store: str):
        self.store = store

    def __call__(self, *arguments: str, code: int = 0, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(app, arguments, input=stdin, env={"ROWLOCK_STORE": self.store, "COLUMNS": "100"})
        assert result.exit_code == code, f"{arguments}: {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result

    def json(self, *arguments: str, code: int = 0, stdin: str | bytes | None = None) -> Any:
        return json.loads(self(*arguments, "--json", code=code, stdin=stdin).stdout)

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """The one sentence that a refused command prints."""
        result = self(*arguments, code=1, stdin=stdin)
        assert result.stdout == ""
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr.removeprefix("Error: ").strip()

    def misuse(self, *arguments: str, stdin: str | None = None) -> str:
        """What a command that is called wrongly prints, on one line."""
        result = self(*arguments, code=2, stdin=stdin)
        assert result.stdout == ""
        return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture
def rowlock(sqlite_url: str) -> Rowlock:
    return Rowlock(sqlite_url)
