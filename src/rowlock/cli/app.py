"""The commands put together."""

from __future__ import annotations

from typing import Annotated

import typer

from rowlock.cli import bench, hold, migrate, queue, receive, redrive, seek, send, serve, simulate, subscription, topic
from rowlock.cli.running import Commands
from rowlock.version import VERSION

KEEPING = "Queues, topics, subscriptions"
MESSAGES = "Messages"
RUNNING = "Running"

app = typer.Typer(
    name="rowlock",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Every command takes --store URL, or the environment variable ROWLOCK_STORE, and --json. "
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage.",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"rowlock {VERSION}")
        raise typer.Exit


@app.callback()
def rowlock(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A message broker on the SQL database that you already trust."""


app.add_typer(queue.app, name="queue", rich_help_panel=KEEPING)
app.add_typer(topic.app, name="topic", rich_help_panel=KEEPING)
app.add_typer(subscription.app, name="subscription", rich_help_panel=KEEPING)
app.command(rich_help_panel=MESSAGES)(send.send)
app.command(rich_help_panel=MESSAGES)(receive.receive)
app.command(rich_help_panel=MESSAGES)(hold.settle)
app.command(rich_help_panel=MESSAGES)(hold.extend)
app.command(rich_help_panel=MESSAGES)(hold.release)
app.command(rich_help_panel=MESSAGES)(seek.seek)
app.add_typer(redrive.app, name="redrive", rich_help_panel=MESSAGES)
app.command(rich_help_panel=RUNNING)(serve.serve)
app.command(rich_help_panel=RUNNING)(migrate.migrate)
app.command(rich_help_panel=RUNNING)(simulate.simulate)
app.command(rich_help_panel=RUNNING)(bench.bench)
