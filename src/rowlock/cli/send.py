"""`rowlock send`: messages from the command line, from a file, or from a pipe."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn, TimeRemainingColumn

from rowlock import limits
from rowlock.cli.options import DEFAULT_STORE, Json, Store, duration, moment
from rowlock.cli.output import bar, plain, plural, print_json, say
from rowlock.cli.running import opened
from rowlock.errors import MessageTooLarge, PublishRefused, RowlockError
from rowlock.model import Message, Published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from rowlock.blocking import Broker

BATCH_MESSAGES = 1_000
CHUNK_BYTES = 256 * 1024

Destination = Annotated[str, typer.Argument(metavar="NAME", help="The queue or topic.", show_default=False)]
Texts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help="One message each. Without any, standard input is read, one message a line.",
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        help="Read this file, one message a line; - is standard input.",
        exists=True,
        dir_okay=False,
        allow_dash=True,
    ),
]
Whole = Annotated[
    bool, typer.Option("--whole", metavar="", help="What is read is a single message, and not one a line.")
]
Key = Annotated[
    str | None, typer.Option("--key", "-k", metavar="TEXT", help="The key: messages of one key stay in order.")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="An attribute; it may be given several times."),
]
Delay = Annotated[float | None, typer.Option(parser=duration, metavar="TIME", help="Hand it out only after this time.")]
Due = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="Hand it out at this time: 2030-12-31T18:00, with a zone if you like."),
]
Expires = Annotated[
    float | None, typer.Option(parser=duration, metavar="TIME", help="Never hand it out when this time is over.")
]
DeduplicationId = Annotated[
    str | None, typer.Option(metavar="ID", help="Store it only if no message with this id came lately.")
]


def send(
    name: Destination,
    texts: Texts = None,
    file: File = None,
    whole: Whole = False,
    key: Key = None,
    attribute: Attributes = None,
    delay: Delay = None,
    due: Due = None,
    expires_in: Expires = None,
    deduplication_id: DeduplicationId = None,
    store: Store = DEFAULT_STORE,
    json: Json = False,
) -> None:
    """Send messages to a queue or topic. When it returns, they are stored durably."""
    due_at = _due(due)
    attributes = _attributes(attribute or [])
    if texts and (file or whole):
        raise typer.BadParameter("Give the messages as arguments, or a file, and not both.")

    def message(body: bytes) -> Message:
        return Message(body, key, attributes, expires_in, delay, due_at, deduplication_id)

    with _input(texts, file, whole=whole) as (batches, size):
        first = next(batches, [])
        if deduplication_id is not None and (len(first) > 1 or next(batches, None)):
            raise typer.BadParameter("There is more than one message, and a deduplication id is for one.")
        with opened(store) as broker:
            sent = _Sent(broker, name, message, keep=json)
            _publish_all(sent, chain([first], batches), size, shown=not json and not texts)
    _print(sent, json=json)


class _Sent:
    """What was stored so far."""

    def __init__(self, broker: Broker, name: str, message: Callable[[bytes], Message], *, keep: bool):
        self.name = name
        self.count = 0
        self.duplicates = 0
        self.kept: list[Published] = []
        self._broker = broker
        self._message = message
        self._keep = keep

    def publish(self, bodies: list[bytes]) -> None:
        try:
            published = self._broker.publish(self.name, [self._message(body) for body in bodies])
        except PublishRefused as error:
            number, reason = error.refused[0]
            stored = sum(one is not None for one in error.published)
            what = f"Message {self.count + number + 1}" if len(bodies) > 1 or self.count else "The message"
            raise RowlockError(f"{what} was refused: {reason}{self._so_far(stored, len(error.refused))}") from None
        except RowlockError as error:
            raise type(error)(f"{error}{self._so_far(0, 0)}") from None
        self.count += len(published)
        self.duplicates += sum(one.duplicate for one in published)
        if self._keep:
            self.kept += published

    def _so_far(self, stored: int, refused: int) -> str:
        stored += self.count
        more = f" ({plural(refused, 'message')} in all were refused.)" if refused > 1 else ""
        return (
            f"{more} {plural(stored, 'message')} before and beside it {'is' if stored == 1 else 'are'} stored."
            if stored
            else more
        )


def _publish_all(sent: _Sent, batches: Iterator[list[bytes]], size: int | None, *, shown: bool) -> None:
    """Batch by batch, with a bar where a file says how long it is."""
    known = [BarColumn(), DownloadColumn(), TimeRemainingColumn()] if size else [SpinnerColumn()]
    done = 0
    with bar("Sending", *known, TextColumn("{task.fields[sent]:,} messages"), shown=shown) as progress:
        task = progress.add_task("", total=size, sent=0)
        for batch in batches:
            sent.publish(batch)
            done += sum(map(len, batch)) + len(batch)
            progress.update(task, completed=done, sent=sent.count)


def _print(sent: _Sent, *, json: bool) -> None:
    if json:
        result = {"name": sent.name, "published": sent.count, "duplicates": sent.duplicates}
        print_json({**result, "messages": plain(sent.kept)})
        return
    stored = sent.count - sent.duplicates
    again = f"; {plural(sent.duplicates, 'message')} had been stored before" if sent.duplicates else ""
    say(f"{plural(stored, 'message')} stored in {sent.name}{again}.")


@contextmanager
def _input(
    texts: list[str] | None, file: Path | None, *, whole: bool
) -> Iterator[tuple[Iterator[list[bytes]], int | None]]:
    """Batches of messages, and of how many bytes they are, where that is known."""
    if texts:
        yield iter([[os.fsencode(text) for text in texts]]), None
    elif file is not None and str(file) != "-":
        with file.open("rb") as stream:
            yield _batches(stream, whole=whole), file.stat().st_size
    elif file is None and sys.stdin.isatty():
        raise typer.BadParameter("There is no message: give a text, --file, or something on standard input.")
    else:
        yield _batches(sys.stdin.buffer, whole=whole), None


def _batches(stream: Any, *, whole: bool) -> Iterator[list[bytes]]:
    """One message a line. As many as have come make a batch, so that what comes slowly is sent at once."""
    if whole:
        yield [stream.read()]
        return
    rest = b""
    while chunk := stream.read1(CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > limits.MESSAGE_MAX_BYTES:
            raise MessageTooLarge(f"A line is longer than the largest message, {limits.MESSAGE_MAX_BYTES} bytes.")
        for at in range(0, len(lines), BATCH_MESSAGES):
            yield lines[at : at + BATCH_MESSAGES]
    if rest:
        yield [rest]


def _due(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


def _attributes(given: list[str]) -> dict[str, str | int | float | bool | bytes] | None:
    found: dict[str, str | int | float | bool | bytes] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{one!r} is no attribute: write name=value.")
        if name in found:
            raise typer.BadParameter(f"The attribute {name!r} is given twice.")
        found[name] = value
    return found or None
