"""`rowlock receive`: take messages; their bodies go to standard output."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowlock.cli.options import DEFAULT_STORE, Json, Store, duration
from rowlock.cli.output import note, plain, print_json
from rowlock.cli.running import opened

if TYPE_CHECKING:
    from rowlock.blocking import ClaimedMessage

Source = Annotated[str, typer.Argument(metavar="NAME", help="The queue or subscription.", show_default=False)]
Most = Annotated[int, typer.Option("--max", "-n", metavar="N", help="Take up to so many messages.")]
Wait = Annotated[
    float, typer.Option(parser=duration, metavar="TIME", help="Wait so long for the first one, 20s at the most.")
]
Visibility = Annotated[
    float | None,
    typer.Option(parser=duration, metavar="TIME", help="They are yours for so long (default: as the queue is set)."),
]
Settle = Annotated[bool, typer.Option("--settle", metavar="", help="Settle them at once, when they are printed.")]


def receive(
    name: Source,
    max_messages: Most = 1,
    wait: Wait = 0,
    visibility_timeout: Visibility = None,
    settle: Settle = False,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Receive messages: bodies on standard output, ids and receipts on standard error.

    Settle them with their receipts (rowlock settle RECEIPT), or at once with --settle; otherwise others get them when
    the visibility timeout is over.
    """
    with opened(store) as broker:
        messages = broker.claim(name, max_messages, visibility_timeout=visibility_timeout, wait=wait)
        if json:
            print_json([_json(message) for message in messages])
        else:
            _print(messages, receipts=not settle)
        sys.stdout.flush()
        if settle and messages:
            broker.settle(messages)
        if not messages and not json:
            note(f"No message is there in {name}." if wait == 0 else f"No message came to {name} in time.")


def _print(messages: list[ClaimedMessage], *, receipts: bool) -> None:
    for message in messages:
        sys.stdout.buffer.write(message.body + b"\n")
        sys.stdout.buffer.flush()
        parts = [f"id {message.id}", f"receives {message.receives}"]
        if message.key is not None:
            parts.insert(1, f"key {message.key}")
        parts += [f"{name}={value!s}" for name, value in message.attributes.items()]
        if message.origin is not None:
            parts.append(f"from {message.origin.source} ({message.origin.reason})")
        if receipts:
            parts.append(f"receipt {message.receipt}")
        note("  ".join(parts))


def _json(message: ClaimedMessage) -> dict[str, Any]:
    body, encoding = _text(message.body)
    return {
        "id": message.id,
        "body": body,
        "encoding": encoding,
        "key": message.key,
        "attributes": {
            name: {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
            for name, value in message.attributes.items()
        },
        "receives": message.receives,
        "sequence": message.sequence,
        "accepted_at": message.accepted_at,
        "published_at": message.published_at,
        "expires_at": message.expires_at,
        "origin": plain(message.origin),
        "receipt": message.receipt,
    }


def _text(body: bytes) -> tuple[str, str]:
    """As text where it is some."""
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
