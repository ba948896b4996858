"""`rowlock seek`: a subscription starts again from somewhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rowlock.cli.options import DEFAULT_STORE, Json, Store, moment
from rowlock.cli.output import print_json, print_table
from rowlock.cli.running import opened

if TYPE_CHECKING:
    from datetime import datetime

Name = Annotated[str, typer.Argument(metavar="NAME", help="The subscription or queue.", show_default=False)]
Place = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", help="earliest, latest, a sequence, or a time such as 2030-12-31T18:00.", show_default=False
    ),
]
Partition = Annotated[
    int | None, typer.Option(metavar="N", help="Only in this partition (default: in all).", show_default=False)
]


def seek(
    name: Name, place: Place, partition: Partition = None, store: Store = DEFAULT_STORE, json: Json = False
) -> None:
    """Start a subscription again from another place. All holds are dropped, all receipts void."""
    to = _place(place)
    with opened(store) as broker:
        found = broker.seek(name, to, partition=partition)
    if json:
        print_json({"subscription": name, "partitions": [{"partition": one, "next": at} for one, at in found.items()]})
    else:
        print_table(["#Partition", "#Next sequence"], found.items())


def _place(text: str) -> str | int | datetime:
    if text in ("earliest", "latest"):
        return text
    if text.isdecimal() and text.isascii():
        return int(text)
    try:
        return moment(text)
    except typer.BadParameter:
        raise typer.BadParameter(
            f"{text!r} is no place to seek to: write earliest, latest, a sequence, or a time such as 2030-12-31T18:00."
        ) from None
