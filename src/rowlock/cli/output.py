"""What commands print: tables and sentences for people, JSON for programs. Results go to stdout, all else to stderr."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rich.progress import ProgressColumn

WIDE = 200
"""Columns where there is no terminal: nothing is cut off in a pipe."""

_PASSWORD_IN_PLACE = re.compile(r"(://[^:/@\s]*):\S*@")
_PASSWORD_IN_OPTION = re.compile(r"(password=)[^&\s'\"]+", re.IGNORECASE)
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE)


def notes() -> Console:
    """For what is not the result: progress, hints, errors."""
    return Console(stderr=True, highlight=False)


def print_json(value: object) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def say(sentence: str) -> None:
    """What was done, where there is nothing else to show."""
    console().print(f"[green]✓[/green] {escape(sentence)}", soft_wrap=True)


def note(sentence: str) -> None:
    notes().print(f"[dim]{escape(sentence)}[/dim]", soft_wrap=True)


def print_error(error: BaseException) -> None:
    text = Text.assemble(("Error: ", "bold red"), without_password(str(error)))
    notes().print(text, soft_wrap=True)


def without_password(text: str) -> str:
    """The text with the password of every URL in it left out."""
    return _PASSWORD_IN_OPTION.sub(r"\1***", _PASSWORD_IN_PLACE.sub(r"\1:***@", text))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Columns whose name begins with `#` hold numbers."""
    table = Table(
        box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False, header_style="bold"
    )
    for column in columns:
        name = column.removeprefix("#")
        # Names are what one copies: they wrap and are never cut.
        table.add_column(name, justify="right" if name != column else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console().print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def span(seconds: float | None) -> str:
    """A duration for people: exact where it is a round one."""
    if seconds is None:
        return "-"
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def age(seconds: float | None) -> str:
    """About how long ago."""
    if seconds is None:
        return "-"
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def when(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def plural(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def bar(*columns: str | ProgressColumn, shown: bool) -> Progress:
    """A progress bar beside the result, that goes when it is done."""
    console = notes()
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


def plain(value: Any) -> Any:
    """What JSON can hold."""
    return msgspec.to_builtins(value)
