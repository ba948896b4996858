"""`rowlock queue`: create, alter, look at, purge and delete queues."""

from __future__ import annotations

from typing import Any

import typer

from rowlock.cli.describing import print_description, print_list
from rowlock.cli.options import DEFAULT_STORE, Depths, Json, Prefix, Queue, Store
from rowlock.cli.output import print_json, say
from rowlock.cli.running import opened
from rowlock.cli.settings import QUEUE, with_settings

app = typer.Typer(no_args_is_help=True, help="Queues: create, alter, look at, purge, delete.")


@app.command()
@with_settings(*QUEUE, creating=True)
def create(name: Queue, *, settings: dict[str, Any], store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Create a queue. One that exists with the same settings is fine; with others it is refused."""
    with opened(store) as broker:
        broker.create_queue(name, **settings)
        if json:
            print_description(broker.show_queue(name), json=True)
        else:
            say(f"The queue {name} is there.")


@app.command()
@with_settings(*QUEUE, creating=False)
def alter(name: Queue, *, settings: dict[str, Any], store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Change settings of a queue while it is in use; those that are not named stay as they are."""
    with opened(store) as broker:
        broker.alter_queue(name, **settings)
        print_description(broker.show_queue(name), json=json)


@app.command("list")
def list_queues(prefix: Prefix = "", depth: Depths = True, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """List queues, with how many messages each has."""
    with opened(store) as broker:
        print_list(broker, broker.queues(prefix), "queue", store, depths=depth, json=json)


@app.command()
def show(name: Queue, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Show a queue: settings, creation, owner, depth, partitions."""
    with opened(store) as broker:
        print_description(broker.show_queue(name), json=json)


@app.command()
def purge(name: Queue, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Forget every message that is in a queue now, delayed ones included."""
    with opened(store) as broker:
        broker.purge(name)
        print_json({"purged": name}) if json else say(f"The queue {name} is empty.")


@app.command()
def delete(name: Queue, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Delete a queue and its messages; their rows go in the background."""
    with opened(store) as broker:
        broker.delete_queue(name)
        print_json({"deleted": name}) if json else say(f"The queue {name} is deleted.")
