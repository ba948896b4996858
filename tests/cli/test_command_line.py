"""The command line as a whole: its help, its documentation, its exit codes, and what it never prints."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
from tools import generate_cli_docs
from typer.core import TyperGroup

from rowlock.cli import app
from rowlock.cli.output import age, span, without_password
from rowlock.errors import RowlockError
from rowlock.version import VERSION

if TYPE_CHECKING:
    from tests.cli.conftest import Rowlock

    from rowlock.bench.main import BenchOptions
    from rowlock.simulate.options import SimulateOptions

ROOT: Any = typer.main.get_command(app)
COMMANDS = dict(generate_cli_docs.commands(ROOT, "rowlock"))
ENTRY = [sys.executable, "-c", "from rowlock.cli import main; main()"]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_says_what_it_is_for(path: str) -> None:
    command = COMMANDS[path]
    assert command.help
    assert [one.name for one in command.params if not one.help] == []
    if not isinstance(command, TyperGroup):
        assert {"store", "json"} - {one.name for one in command.params} == set()


def test_the_documentation_is_current() -> None:
    assert generate_cli_docs.TARGET.read_text() == generate_cli_docs.generated(), "run: make generate"


def test_help_fits_a_terminal(rowlock: Rowlock) -> None:
    text = rowlock("--help").stdout
    assert max(map(len, text.splitlines())) <= 100
    for name in ROOT.commands:
        assert f" {name} " in text


def test_version(rowlock: Rowlock) -> None:
    assert rowlock("--version").stdout == f"rowlock {VERSION}\n"


def test_migrate(rowlock: Rowlock) -> None:
    assert rowlock.json("migrate") == {"store": rowlock.store, "lanes": 1}
    assert rowlock.json("migrate", "--lanes", "3") == {"store": rowlock.store, "lanes": 3}
    assert "has 3 lanes; lanes are only ever added" in rowlock("migrate", "--lanes", "2").stdout
    assert rowlock.refusal("migrate", "--lanes", "65").endswith("from 1 to 64.")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://bob:secret@127.0.0.1:1/x", "postgresql://bob:***@127.0.0.1:1/x cannot be reached"),
        ("mysql://bob:se:cr@et@127.0.0.1:1/x", "mysql://bob:***@127.0.0.1:1/x cannot be reached"),
        ("oracle://bob:secret@there/x", "oracle is no kind of database"),
    ],
)
def test_passwords_are_never_printed(rowlock: Rowlock, url: str, told: str) -> None:
    assert told in rowlock.refusal("queue", "list", "--store", url)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@a:1,b:2/x?password=p&x=1", "postgresql://u:***@a:1,b:2/x?password=***&x=1"),
        ("postgresql://a:1/x", "postgresql://a:1/x"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("from mysql://u:p/@h/x to mysql://u@h/y", "from mysql://u:***@h/x to mysql://u@h/y"),
    ],
)
def test_without_password(text: str, shown: str) -> None:
    assert without_password(text) == shown


def test_spans() -> None:
    assert [span(one) for one in (None, 0, 0.5, 90, 120, 7200, 604800)] == [
        "-", "0 s", "0.5 s", "90 s", "2 min", "2 h", "7 d",
    ]  # fmt: skip
    assert [age(one) for one in (None, 0.25, 59, 150, 7300, 200_000)] == ["-", "0.2 s", "59 s", "2 min", "2 h", "2 d"]


def test_the_entry_point(sqlite_url: str) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*ENTRY, *arguments, "--store", sqlite_url], capture_output=True, text=True, check=False)

    assert run("queue", "create", "orders").returncode == 0
    refused = run("queue", "show", "nothing")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "Error: There is no subscription or queue named 'nothing'.\n"
    assert run("queue", "shows").returncode == 2


WAITING = """
from rowlock.cli import main
from rowlock.embedded import Broker

async def claim(self, *arguments, original=Broker.claim, **more):
    print("waiting", flush=True)
    return await original(self, *arguments, **more)

Broker.claim = claim
main()
"""
"""The command line, which says when it begins to wait."""


def test_ctrl_c_ends_a_wait(sqlite_url: str, rowlock: Rowlock) -> None:
    """The message that comes afterwards was not received by anybody."""
    rowlock("queue", "create", "orders")
    command = [sys.executable, "-c", WAITING, "receive", "orders", "--wait", "20s", "--store", sqlite_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"Interrupted.\n")
    rowlock("send", "orders", "a")
    assert rowlock.json("receive", "orders")[0]["receives"] == 1


def test_simulate_gets_its_options(rowlock: Rowlock, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(options: SimulateOptions) -> int:
        assert (options.producers, options.consumers, options.seconds, options.faults) == (2, 3, 60, "all")
        assert (options.seed, options.store, options.json) == (7, "sqlite", True)
        return 1

    monkeypatch.setattr("rowlock.simulate.main.run", run)
    asked = ["--producers", "2", "--consumers", "3", "--seconds", "1m", "--faults", "all", "--seed", "7"]
    rowlock("simulate", *asked, "--store", "sqlite", "--json", code=1)


def test_bench_gets_its_options(rowlock: Rowlock, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(options: BenchOptions) -> int:
        assert (options.only, options.quick, options.rounds, options.store) == ("engine", True, 2, "postgresql")
        return 0

    monkeypatch.setattr("rowlock.bench.main.run", run)
    rowlock("bench", "--only", "engine", "--quick", "--rounds", "2")


def test_a_failure_of_ours_is_told_in_one_sentence(rowlock: Rowlock, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: object) -> int:
        raise RowlockError("It went wrong.")

    monkeypatch.setattr("rowlock.simulate.main.run", fail)
    assert rowlock.refusal("simulate") == "It went wrong."
