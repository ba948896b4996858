"""`rowlock subscription`: create, alter, look at and delete subscriptions, readers among them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rowlock.cli.describing import print_description, print_list
from rowlock.cli.options import DEFAULT_STORE, Depths, Json, Prefix, Store, Subscription, one_of
from rowlock.cli.output import print_json, say
from rowlock.cli.running import opened
from rowlock.cli.settings import SUBSCRIPTION, with_settings

app = typer.Typer(no_args_is_help=True, help="Subscriptions and readers: create, alter, look at, commit, delete.")

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics that it reads.", show_default=False)]
Start = Annotated[
    str | None,
    typer.Option(
        parser=one_of("place to start", "latest", "earliest"),
        metavar="WORD",
        help="Begin with what comes from now on, or with the oldest there is (default: latest; readers: earliest).",
        show_default=False,
    ),
]
Reader = Annotated[
    bool,
    typer.Option(
        "--reader", metavar="", help="A reader: a position in each partition, moved by commit; nothing is received."
    ),
]
Partition = Annotated[int, typer.Option(metavar="N", help="The partition's number.")]


@app.command()
@with_settings(*SUBSCRIPTION, creating=True)
def create(
    name: Subscription,
    topics: Topics,
    *,
    start: Start = None,
    reader: Reader = False,
    settings: dict[str, Any],
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Create a subscription on topics. One that exists with the same settings is fine; with others it is refused."""
    start = start or ("earliest" if reader else "latest")
    with opened(store) as broker:
        broker.create_subscription(name, topics, start=start, **settings, **({"reader": True} if reader else {}))
        if json:
            print_description(broker.show_subscription(name), json=True)
        else:
            say(f"The {'reader' if reader else 'subscription'} {name} is there, on {', '.join(topics)}.")


@app.command()
@with_settings(*SUBSCRIPTION, creating=False)
def alter(name: Subscription, *, settings: dict[str, Any], store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Change settings of a subscription while it is in use; those that are not named stay as they are."""
    with opened(store) as broker:
        broker.alter_subscription(name, **settings)
        print_description(broker.show_subscription(name), json=json)


@app.command("list")
def list_subscriptions(
    prefix: Prefix = "", depth: Depths = True, store: Store = DEFAULT_STORE, json: Json = False
) -> None:
    """List subscriptions and readers, with how many messages each has before it; every queue is one, too."""
    with opened(store) as broker:
        print_list(broker, broker.subscriptions(prefix), "subscription", store, depths=depth, json=json)


@app.command()
def show(name: Subscription, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Show a subscription: settings, creation, owner, depth, its place in each partition."""
    with opened(store) as broker:
        print_description(broker.show_subscription(name), json=json)


@app.command()
def commit(
    name: Subscription,
    sequence: Annotated[
        int, typer.Argument(metavar="SEQUENCE", help="Everything below it has been read.", show_default=False)
    ],
    partition: Partition = 0,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Move a reader on: everything below a sequence has been read."""
    with opened(store) as broker:
        broker.commit(name, sequence, partition=partition)
        if json:
            print_json({"reader": name, "partition": partition, "next": sequence})
        else:
            say(f"The reader {name} goes on at {sequence} in partition {partition}.")


@app.command()
def delete(name: Subscription, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Delete a subscription; the messages stay for others."""
    with opened(store) as broker:
        broker.delete_subscription(name)
        print_json({"deleted": name}) if json else say(f"The subscription {name} is deleted.")
