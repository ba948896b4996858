"""`rowlock migrate`: bring a database's schema up to date, and give it more lanes."""

from __future__ import annotations

from typing import Annotated

import typer

from rowlock.cli.options import DEFAULT_STORE, Json, Store
from rowlock.cli.output import plural, print_json, say, without_password
from rowlock.cli.running import opened

Lanes = Annotated[
    int | None,
    typer.Option(
        help="At least so many lanes (sets of hot tables, each with its own cycle); there are never fewer later."
    ),
]


def migrate(lanes: Lanes = None, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Create or upgrade the schema, or add lanes. Brokers do the first two by themselves when they start."""
    with opened(store, lanes=lanes) as broker:
        have = broker.lanes
    if json:
        print_json({"store": without_password(store), "lanes": have})
        return
    more = "; lanes are only ever added" if lanes is not None and lanes < have else ""
    say(f"The schema in {without_password(store)} is up to date and has {plural(have, 'lane')}{more}.")
