"""Work: one caller's request to one lane, waiting for a cycle to carry it.

A work says what it locks and what it would like to have read; then it decides, by pure code, against a draft. It is
decided again when the database turned out to be otherwise. Its caller is answered after COMMIT, and never before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rowlock import limits
from rowlock.store.port import Cursor, Durability, Lane, Wanted

if TYPE_CHECKING:
    from rowlock.broker.draft import Draft
    from rowlock.ledger.rules import Rules

Channel = tuple[int, Durability]
"""(lane, durability): what one cycle loop serves."""

DeduplicationKey = tuple[int, int, str, str]
"""(part, bucket, scope, id)"""


class Outdated(Exception):
    """The catalog that this work was made from is no longer true: make it anew."""


class Place:
    """A cursor that a work uses: the version and the rules of the settings it was made from."""

    __slots__ = ("cursor", "rules", "version")

    def __init__(self, cursor: Cursor, version: int, rules: Rules):
        self.cursor = cursor
        self.version = version
        self.rules = rules


NO_PARTS: dict[int, int] = {}
NO_PLACES: dict[Cursor, Place] = {}
"""Works share what they lock with all that lock the same: these dicts are never changed."""


class Work:
    """The base of all works."""

    verb = ""
    messages = 1
    """How much it weighs in a cycle, in messages and in bytes."""
    bytes = 0
    rank = 1
    """Its place in a cycle: what appends is decided first, what claims last."""
    grows = False
    """Whether it stores more: it is refused when the database is full."""
    parts: dict[int, int]
    """Partitions that it appends to (or changes): part -> version of the topic's settings."""
    places: dict[Cursor, Place]
    """Cursors that it uses."""
    needs_lock = False
    """Whether it can be decided under lock only."""
    channel: Channel
    """Where it is carried."""
    whole: tuple[int, ...] = ()
    """Partitions of which it needs every cursor."""

    def __init__(self) -> None:
        self.parts = NO_PARTS
        self.places = NO_PLACES
        self.since = time.monotonic()
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def is_idle(self, draft: Draft) -> bool:
        """Whether, by what is remembered, it would find nothing to do: to be checked before it is believed."""
        return False

    def probes(self) -> Iterable[Cursor]:
        """Ledgers of which the first live message behind the frontier is to be looked for."""
        return ()

    def demand(self, draft: Draft) -> None:
        """Say how many of the next messages it would like to have, of which ledgers."""

    def wanted(self, draft: Draft) -> Iterable[Wanted | tuple[int, int]]:
        """Messages that it needs to decide: ranges and single (part, seq)."""
        return ()

    def deduplication_keys(self) -> list[DeduplicationKey]:
        return []

    async def read(self, lane: Lane, draft: Draft) -> None:
        """Read whatever else it needs, under lock (only where `needs_lock`)."""

    def decide(self, draft: Draft) -> Any:
        """Decide. The result is the caller's answer, once the draft is committed."""
        raise NotImplementedError

    def answer(self, result: Any) -> None:
        """It was committed."""
        if not self.future.done():
            self.future.set_result(result)
        else:
            self.abandoned(result)

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    @property
    def is_answered(self) -> bool:
        """Whether it was carried, and its caller has the answer, or has only to look."""
        return self.future.done() and not self.future.cancelled() and self.future.exception() is None

    def abandoned(self, result: Any) -> None:
        """Its caller is gone, and it was committed all the same."""


def step_of(largest_bytes: int, most: int = limits.MOVE_STEP_MESSAGES) -> int:
    """How many messages of up to that size one step may read, so that a cycle stays within its bytes."""
    return max(1, min(most, limits.CYCLE_BYTES // max(1, largest_bytes)))
