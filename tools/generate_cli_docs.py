"""Write docs/cli.md, every command with its arguments and options, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.core import TyperArgument, TyperGroup, TyperOption

from rowlock.cli import app

TARGET = Path(__file__).parents[1] / "docs/cli.md"
HEAD = """\
# The command line

`rowlock` works on a database, with or without a server beside it. Every command takes the database with `--store URL`
or from the environment variable `ROWLOCK_STORE`, and prints JSON with `--json`. Results go to standard output,
everything else to standard error. Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted.

A duration (TIME) is a number of seconds, or has a unit: `500ms`, `90s`, `5m`, `12h`, `7d`. A point in time is written
as in ISO 8601, `2030-12-31T18:00`, with a zone if one likes. A backoff is `fixed:5s`, or `exponential:1s`, which takes
a factor, a longest time and a share of chance: `exponential:1s,factor=2,max=1h,jitter=0.2`.

This page is written by `make generate`.
"""


def generated() -> str:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    pages = [_page(path, command) for path, command in commands(root, "rowlock") if not isinstance(command, TyperGroup)]
    return "\n".join([HEAD, *pages])


def commands(group: TyperGroup, path: str) -> Iterator[tuple[str, Any]]:
    """Every command and group below a group, with its full name, in the order of the help."""
    context: Any = None
    for name in group.list_commands(context):
        command = group.commands[name]
        yield f"{path} {name}", command
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{path} {name}")


def _page(path: str, command: Any) -> str:
    arguments = [one for one in command.params if isinstance(one, TyperArgument)]
    options = [one for one in command.params if isinstance(one, TyperOption)]
    usage = " ".join([path, *map(_usage, arguments), "[OPTIONS]"])
    rows = [(_usage(one), one.help or "") for one in arguments] + [(_spelled(one), _says(one)) for one in options]
    table = "\n".join(f"| `{_cell(name)}` | {_cell(says)} |" for name, says in rows)
    says = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help)
    return f"## {path}\n\n{says}\n\n    {usage}\n\n| | |\n|---|---|\n{table}\n"


def _usage(argument: TyperArgument) -> str:
    name = f"{argument.metavar}{'' if argument.nargs == 1 else '...'}"
    return name if argument.required else f"[{name}]"


def _spelled(option: TyperOption) -> str:
    names = ", ".join(sorted(option.opts, key=len, reverse=True))
    off = f" / {option.secondary_opts[0]}" if option.secondary_opts else ""
    return f"{names}{off} {option.metavar or ''}".strip()


def _says(option: TyperOption) -> str:
    says = (option.help or "").replace("\\[", "[")
    if option.show_default and option.default not in (None, "", False, True):
        says += f" [default: {option.default}]"
    return says


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(generated())
