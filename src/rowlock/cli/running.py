"""How a command runs: a broker for its time, and failures as one sentence with exit code 1."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from rowlock import blocking
from rowlock.cli.options import prepared
from rowlock.cli.output import note, print_error
from rowlock.errors import RowlockError, Unavailable
from rowlock.store.faults import StoreFault

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_SECONDS = 15.0
"""Somebody sits before it: shorter than a program's."""

FIRST = ("queue", "topic", "subscription")
FAILED = 1
INTERRUPTED = 130


class Commands(TyperGroup):
    """All commands. A failure is told on stderr, without a traceback; wrong usage exits with 2, by typer."""

    def list_commands(self, ctx: Any) -> list[str]:
        """What is set up first stands first in the help."""
        return sorted(super().list_commands(ctx), key=lambda name: name not in FIRST)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (RowlockError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            print_error(error)
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            note("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def opened(store: str, *, lanes: int | None = None) -> Iterator[blocking.Broker]:
    """A broker for one command."""
    broker = blocking.Broker(prepared(store), lanes=lanes, patience=PATIENCE_SECONDS)
    try:
        broker.open()
    except StoreFault as fault:
        raise Unavailable(f"{store} cannot be reached: {fault}") from fault
    with closing(broker):
        yield broker
