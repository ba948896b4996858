"""What many commands share: the store, names, durations and times as options."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

DEFAULT_STORE = "sqlite:///data/rowlock.db"
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|m|h|d)?")


def prepared(store: str) -> str:
    """The store to open: the folder of the default one is made."""
    if store == DEFAULT_STORE:
        Path("data").mkdir(exist_ok=True)
    return store


def duration(text: str | float) -> float:
    """Seconds: `30`, `1.5`, or with a unit `90s`, `5m`, `12h`, `7d`."""
    if not isinstance(text, str):
        return text  # An option's default.
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is no duration: write seconds, or a number with a unit: 500ms 90s 5m 12h 7d."
        )
    seconds = float(match[1]) * SECONDS[match[2] or "s"]
    return int(seconds) if seconds.is_integer() else seconds


def moment(text: str) -> datetime:
    """A time as in ISO 8601; where it names no zone, it is this machine's."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time: write it as 2030-12-31T18:00, with a zone (+01:00, Z) if you like."
        ) from None
    return found if found.tzinfo else found.astimezone()


def one_of(what: str, *allowed: str) -> Any:
    """A parser that takes these words only."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} is no {what}: it must be {' or '.join(map(repr, allowed))}.")
        return text

    return parse


Store = Annotated[
    str,
    typer.Option(
        envvar="ROWLOCK_STORE",
        metavar="URL",
        help="The database: sqlite:///file.db, postgresql://user@host/name or mysql://user@host/name.",
    ),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, for programs.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]
Subscription = Annotated[
    str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription's name.", show_default=False)
]
Prefix = Annotated[str, typer.Argument(metavar="PREFIX", help="List only names that begin so.", show_default=False)]
Depths = Annotated[bool, typer.Option("--depth/--no-depth", metavar="", help="Look up how many messages each one has.")]
