"""`rowlock simulate`: producers and consumers as processes, faults, and a verdict on every invariant."""

from __future__ import annotations

from typing import Annotated

import typer

from rowlock.cli.options import Json, duration

Seconds = Annotated[
    float, typer.Option(parser=duration, metavar="TIME", help="How long producers publish and faults happen.")
]
Where = Annotated[
    str,
    typer.Option(
        metavar="KIND|URL",
        help="sqlite, postgresql or mariadb, started for the run; or the URL of a database of yours.",
    ),
]
Faults = Annotated[
    str,
    typer.Option(
        metavar="NAMES", help="What goes wrong: all, or some of consumers,brokers,database,duplicates,expiry."
    ),
]


def simulate(
    producers: Annotated[int, typer.Option(metavar="N", help="How many producers.")] = 8,
    consumers: Annotated[int, typer.Option(metavar="N", help="How many consumers.")] = 8,
    seconds: Seconds = 30,
    store: Where = "sqlite",
    faults: Faults = "",
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Repeat the choices of an earlier run.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Watch many producers and consumers, with faults if you like, and a verdict on every invariant.

    It exits 0 when all hold, and 1 when one is violated, or was checked on nothing, or a fault that was asked for never
    happened.
    """
    # It brings in multiprocessing and the local servers, which no other command needs.
    from rowlock.simulate.main import run
    from rowlock.simulate.options import SimulateOptions

    options = SimulateOptions(
        producers=producers, consumers=consumers, seconds=seconds, store=store, faults=faults, seed=seed, json=json
    )
    raise typer.Exit(run(options))
