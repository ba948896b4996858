"""The words that ledgers and their callers share: rules in, decisions out."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from msgspec import Struct

from rowlock.limits import IN_FLIGHT_DEFAULT_MESSAGES, LOOK_AHEAD_DEFAULT_MESSAGES


class Logged(Protocol):
    """What a ledger needs to know of a message in the log."""

    @property
    def key(self) -> str | None: ...
    @property
    def expires_at(self) -> int | None: ...
    @property
    def due_at(self) -> int | None: ...


class Rules(Struct, frozen=True):
    """The part of a subscription's settings that its ledgers decide by."""

    order: str = "none"
    fair: bool = False
    at_most_once: bool = False
    max_receives: int | None = None
    bury_expired: bool = False
    """Dead-letter expired messages instead of passing over them."""
    max_in_flight: int = IN_FLIGHT_DEFAULT_MESSAGES
    look_ahead: int = LOOK_AHEAD_DEFAULT_MESSAGES


class Run(NamedTuple):
    """Messages that a claim hands out: sequences start to stop (exclusive), alike in all else."""

    start: int
    stop: int
    receives: int
    first_received: int


class Dying(NamedTuple):
    """A message that is to be dead-lettered."""

    seq: int
    reason: str
    receives: int


class Verdict(Enum):
    """What became of a settle, extend or release."""

    DONE = "done"
    GONE = "gone"
    """The message was done already; nothing was changed."""
    STALE = "stale"
    """Somebody else holds it, or nobody does; nothing was changed."""
