"""What a process writes down: every request of its clients before it is made, and every answer as soon as it came.

A line reaches the operating system before the next step is taken, so that kill -9 loses only what no client was told.
Times are CLOCK_MONOTONIC, which all processes of one machine share and no clock adjustment moves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

OK = "ok"
STALE = "stale"
"""The receipt was refused."""
REFUSED = "refused"
"""Certainly nothing was changed."""
UNKNOWN = "unknown"
"""The caller was told that it may or may not have happened."""

SETTLE = "settle"
EXTEND = "extend"
RELEASE = "release"

SUFFIX = ".records"


class Outgoing(Struct, array_like=True, gc=False):
    """A message in a publish."""

    name: str
    """Unique in the run, and part of the body."""
    key: str | None = None
    expires_in: float | None = None
    delay: float | None = None
    deduplication_id: str | None = None


class StoredAs(Struct, array_like=True, gc=False):
    """What a publisher was told of one message."""

    id: str
    partition: int
    sequence: int | None
    duplicate: bool


class Handed(Struct, array_like=True, gc=False):
    """A message in a claim's answer."""

    name: str
    id: str
    sequence: int
    receives: int
    key: str | None
    intact: bool
    reason: str | None
    """Why it was dead-lettered."""


class Publishing(Struct, array_like=True, tag="publishing"):
    call: int
    at: float
    topic: str
    messages: list[Outgoing]


class Published(Struct, array_like=True, tag="published"):
    call: int
    at: float
    outcome: str
    stored: list[StoredAs | None] = []


class HandedOut(Struct, array_like=True, tag="handed-out"):
    call: int
    subscription: str
    consumer: str
    asked: float
    """When the claim was made: the hold cannot have begun before."""
    at: float
    """When the answer came: the hold had begun by then."""
    timeout: float
    messages: list[Handed]


class Acting(Struct, array_like=True, tag="acting"):
    """A settle, extend or release of one message of a claim's answer."""

    call: int
    at: float
    verb: str
    answer: int
    index: int
    seconds: float = 0.0


class Acted(Struct, array_like=True, tag="acted"):
    call: int
    at: float
    outcome: str


class Happened(Struct, array_like=True, tag="happened"):
    """A fault of a client, made on purpose; or an error that no client should ever see."""

    at: float
    what: str
    text: str = ""


Record = Publishing | Published | HandedOut | Acting | Acted | Happened

DIED = "died"
STALLED = "stalled"
TROUBLE = "trouble"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


class Recorder:
    """One process's file."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._calls = 0

    def next_call(self) -> int:
        self._calls += 1
        return self._calls

    def write(self, record: Record) -> None:
        os.write(self._file, _encoder.encode(record) + b"\n")


def read(path: Path) -> Iterator[Record]:
    """The records of a file, but for a last line that its writer did not live to finish."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _decoder.decode(line)


def now() -> float:
    return time.monotonic()


def body_of(name: str, size: int) -> bytes:
    """A body that can be checked by itself: its name, and filling made of it."""
    head = name.encode() + b"|"
    return head + (head * (size // len(head) + 1))[:size]


def name_in(body: bytes) -> tuple[str, bool]:
    """The name in a body, and whether the body is intact."""
    head, bar, rest = body.partition(b"|")
    name = head.decode("utf-8", "replace")
    return name, bool(bar) and body == body_of(name, len(rest))
