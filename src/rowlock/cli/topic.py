"""`rowlock topic`: create, alter, look at and delete topics."""

from __future__ import annotations

from typing import Any

import typer

from rowlock.cli.describing import print_description, print_list
from rowlock.cli.options import DEFAULT_STORE, Json, Prefix, Store, Topic
from rowlock.cli.output import print_json, say
from rowlock.cli.running import opened
from rowlock.cli.settings import TOPIC, with_settings

app = typer.Typer(no_args_is_help=True, help="Topics: create, alter, look at, delete.")


@app.command()
@with_settings(*TOPIC, creating=True)
def create(name: Topic, *, settings: dict[str, Any], store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Create a topic. One that exists with the same settings is fine; with others it is refused."""
    with opened(store) as broker:
        broker.create_topic(name, **settings)
        if json:
            print_description(broker.show_topic(name), json=True)
        else:
            say(f"The topic {name} is there.")


@app.command()
@with_settings(*TOPIC, creating=False)
def alter(name: Topic, *, settings: dict[str, Any], store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Change settings of a topic while it is in use; those that are not named stay as they are."""
    with opened(store) as broker:
        broker.alter_topic(name, **settings)
        print_description(broker.show_topic(name), json=json)


@app.command("list")
def list_topics(prefix: Prefix = "", store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """List topics; every queue is one, too."""
    with opened(store) as broker:
        print_list(broker, broker.topics(prefix), "topic", store, depths=False, json=json)


@app.command()
def show(name: Topic, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Show a topic: settings, creation, owner, partitions."""
    with opened(store) as broker:
        print_description(broker.show_topic(name), json=json)


@app.command()
def delete(name: Topic, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Delete a topic that no subscription reads any more."""
    with opened(store) as broker:
        broker.delete_topic(name)
        print_json({"deleted": name}) if json else say(f"The topic {name} is deleted.")
