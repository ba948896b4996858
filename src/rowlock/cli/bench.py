"""`rowlock bench`: Rowlock against plain SQL on the same server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rowlock.cli.options import Json


def bench(
    only: Annotated[str | None, typer.Option(metavar="AREA", help="One area, such as engine (default: all).")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="At a smaller scale, in under three minutes.")
    ] = False,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report there, as JSON, too.")] = None,
    store: Annotated[
        str,
        typer.Option(metavar="KIND", help="sqlite, postgresql, mariadb or all; servers are started for the run."),
    ] = "postgresql",
    rounds: Annotated[
        int | None, typer.Option(metavar="N", help="How often both sides take turns (default: as the scale says).")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only what has a measure whose name contains this.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure Rowlock against plain SQL on the same server.

    All figures are ratios within one run: both sides in turns, median of several rounds.
    """
    # It brings in the local servers and the bare drivers, which no other command needs.
    from rowlock.bench.main import BenchOptions, run

    options = BenchOptions(only=only, quick=quick, json=json, output=output, store=store, rounds=rounds, name=name)
    raise typer.Exit(run(options))
