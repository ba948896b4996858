"""What may be asked of a simulation."""

from __future__ import annotations

from msgspec import Struct

from rowlock.errors import InvalidArgument

CONSUMERS = "consumers"
BROKERS = "brokers"
DATABASE = "database"
DUPLICATES = "duplicates"
EXPIRY = "expiry"
FAULTS = (CONSUMERS, BROKERS, DATABASE, DUPLICATES, EXPIRY)

CLIENTS_COUNT = 64
SECONDS_MAX = 24 * 3600


class SimulateOptions(Struct, kw_only=True, frozen=True):
    """One run."""

    producers: int = 8
    consumers: int = 8
    seconds: float = 30
    """How long producers publish and faults happen; draining comes on top."""
    store: str = "sqlite"
    """`sqlite`, `postgresql` or `mariadb`, which are made for the run; or the URL of a database."""
    faults: str = ""
    """`all`, or names of `FAULTS` separated by commas."""
    json: bool = False
    seed: int | None = None
    """Of every choice that the simulation makes; what the machine's timing makes of it is another matter."""
    drain_seconds: float = 60
    """How long consumers may take, once nothing is broken any more, to finish what is there."""
    child_prelude: str | None = None
    """A module that every broker process imports first: tests break the ledger with it."""


def check(options: SimulateOptions) -> None:
    _between("producers", options.producers, 1, CLIENTS_COUNT)
    _between("consumers", options.consumers, 1, CLIENTS_COUNT)
    _between("seconds", options.seconds, 1, SECONDS_MAX)
    named(options.faults)


def named(faults: str) -> frozenset[str]:
    """The faults that a text names."""
    if faults == "all":
        return frozenset(FAULTS)
    names = [name.strip() for name in faults.split(",") if name.strip()]
    for name in names:
        if name not in FAULTS:
            raise InvalidArgument(f"{name!r} is not a fault: use 'all', or some of {', '.join(FAULTS)}.")
    return frozenset(names)


def _between(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InvalidArgument(f"{what} is {value}: it must be between {low} and {high}.")
