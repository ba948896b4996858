"""`rowlock redrive`: move what failed back to where it came from, or elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from rowlock.cli.options import DEFAULT_STORE, Json, Store
from rowlock.cli.output import bar, note, plain, plural, print_json, print_table, say, when, without_password
from rowlock.cli.running import FAILED, opened
from rowlock.errors import NotFound

if TYPE_CHECKING:
    from rowlock.blocking import Broker
    from rowlock.model import Redrive

LOOK_SECONDS = 0.1
COLUMNS = ["#Id", "From", "To", "State", "#Moved", "#Of", "#Per second", "Started"]

app = typer.Typer(no_args_is_help=True, help="Redrives: start, watch, list, cancel.")

Id = Annotated[int, typer.Argument(metavar="ID", help="The redrive's id.", show_default=False)]
Source = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The queue to empty, such as a dead-letter queue.", show_default=False)
]


@app.command()
def start(
    source: Source,
    to: Annotated[
        str | None, typer.Option(metavar="NAME", help="Move them here (default: back to where each came from).")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="Messages per second (default: as fast as it goes).")
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", metavar="", help="Do not wait; a running broker carries on.")
    ] = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Start a redrive and watch it to its end. Ctrl-C leaves it to the other brokers; its progress is stored."""
    with opened(store) as broker:
        task = broker.redrive(source, to, rate=rate)
        if detach:
            _print_one(task, json=json)
        else:
            _watch(broker, task, json=json)


@app.command()
def watch(
    id_: Id,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Watch a redrive to its end."""
    with opened(store) as broker:
        _watch(broker, _find(broker, id_), json=json)


@app.command("list")
def list_redrives(
    source: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Only those of this queue.", show_default=False)
    ] = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """List redrives, the newest first."""
    with opened(store) as broker:
        found = broker.redrives(source)
    if json:
        print_json(plain(found))
    elif not found:
        note(f"There are no redrives in {without_password(store)}.")
    else:
        print_table(COLUMNS, [_row(task) for task in found])


@app.command()
def cancel(
    id_: Id,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Stop a redrive; what it has moved stays moved."""
    with opened(store) as broker:
        _print_one(broker.cancel_redrive(id_), json=json)


def _find(broker: Broker, id_: int) -> Redrive:
    for task in broker.redrives():
        if task.id == id_:
            return task
    raise NotFound(f"There is no redrive with the id {id_}.")


def _watch(broker: Broker, task: Redrive, *, json: bool) -> None:
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with bar(TextColumn("Redriving {task.description}"), *columns, shown=not json) as progress:
        shown = progress.add_task(task.source, total=task.to_move)
        while task.state == "running":
            progress.update(shown, completed=task.moved)
            time.sleep(LOOK_SECONDS)
            task = _find(broker, task.id)
    _print_one(task, json=json)
    if task.state != "completed":
        raise typer.Exit(FAILED)


def _print_one(task: Redrive, *, json: bool) -> None:
    if json:
        print_json(plain(task))
    elif task.state == "failed":
        note(f"The redrive {task.id} of {task.source} failed: {task.problem}")
    else:
        where = "back to where they came from" if task.destination is None else f"to {task.destination}"
        moved = f"{task.moved:,} of {plural(task.to_move, 'message')} moved {where}"
        say(f"The redrive {task.id} of {task.source} is {task.state}: {moved}.")


def _row(task: Redrive) -> list[object]:
    where = task.destination or "where they came from"
    return [task.id, task.source, where, task.state, task.moved, task.to_move, task.rate, when(task.started_at)]
