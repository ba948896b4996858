"""`rowlock serve`: the broker as a process of its own."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from rowlock.blocking.loop import new_event_loop
from rowlock.cli.options import DEFAULT_STORE, Json, Store, prepared
from rowlock.cli.output import console, note, print_json, without_password

HOST = "127.0.0.1"
PORT = 9324

Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="The address to listen on; 0.0.0.0 is every one of this machine.")
]
Port = Annotated[int, typer.Option(metavar="N", help="The port to listen on; 0 is any free one.", min=0, max=65535)]


def serve(host: Host = HOST, port: Port = PORT, store: Store = DEFAULT_STORE, json: Json = False) -> None:
    """Run a broker, with /health, /version and /metrics over HTTP, until SIGTERM or Ctrl-C.

    While one runs, timers, expiry, retention and redrives go on for queues that nobody uses at the moment, too.
    """
    # The server's libraries take longer to import than most commands run.
    from rowlock.server.run import run

    def ready(address: str) -> None:
        if json:
            print_json({"address": address, "store": without_password(store)})
        else:
            console().print(
                f"[green]✓[/green] Rowlock serves {without_password(store)} at {address} (health, version, metrics)",
                soft_wrap=True,
            )
            if store != DEFAULT_STORE:
                note(f"Other commands find it with: export ROWLOCK_STORE={without_password(store)}")

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run(prepared(store), host, port, ready=ready))
