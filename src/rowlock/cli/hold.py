"""`rowlock settle`, `extend` and `release`: what one does with messages that one holds, by their receipts."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rowlock.cli.options import DEFAULT_STORE, Json, Store, duration
from rowlock.cli.output import plural, print_json, say, span
from rowlock.cli.running import opened

Receipts = Annotated[
    list[str],
    typer.Argument(
        metavar="RECEIPT", help="Receipts; - reads them from standard input, one a line.", show_default=False
    ),
]
Time = Annotated[float, typer.Option("--for", parser=duration, metavar="TIME", help="Hold them for so long from now.")]
Delay = Annotated[
    float | None,
    typer.Option(
        parser=duration,
        metavar="TIME",
        help="Hand them out again after this time (default: as the queue's backoff says).",
    ),
]


def settle(receipts: Receipts, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Settle messages: they are done, and never handed out again."""
    given = _given(receipts)
    with opened(store) as broker:
        broker.settle(given)
    _print("settled", len(given), ".", json=json)


def extend(receipts: Receipts, seconds: Time, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Hold messages for longer."""
    given = _given(receipts)
    with opened(store) as broker:
        broker.extend(given, seconds)
    _print("extended", len(given), f" for {span(seconds)}.", json=json)


def release(receipts: Receipts, delay: Delay = None, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Give messages up, to be handed out again."""
    given = _given(receipts)
    with opened(store) as broker:
        broker.release(given, delay)
    _print("released", len(given), ".", json=json)


def _given(receipts: list[str]) -> list[str]:
    found: list[str] = []
    for one in receipts:
        found += [line.strip() for line in sys.stdin if line.strip()] if one == "-" else [one]
    if not found:
        raise typer.BadParameter("There is no receipt on standard input.")
    return found


def _print(done: str, count: int, more: str, *, json: bool) -> None:
    print_json({done: count}) if json else say(f"{plural(count, 'message')} {done}{more}")
