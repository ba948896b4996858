"""What can be set for a topic and for a subscription: the values, their defaults, and what is refused.

Times are seconds here, as people write them; the engine turns them into milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from rowlock import limits
from rowlock.errors import InvalidArgument

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?")

UNTIL_ACKNOWLEDGED = "until-acknowledged"


class Fixed(Struct, frozen=True, forbid_unknown_fields=True, tag="fixed", tag_field="kind"):
    """Each retry waits the same time."""

    seconds: float


class Exponential(Struct, frozen=True, forbid_unknown_fields=True, tag="exponential", tag_field="kind"):
    """Each retry waits `factor` times as long as the one before, up to `max_seconds`, less a random share of up to
    `jitter`."""

    seconds: float
    factor: float = 2.0
    max_seconds: float = 3600.0
    jitter: float = 0.2


Backoff = Fixed | Exponential


class TopicSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a topic keeps messages."""

    partitions: int = 1
    max_message_bytes: int = limits.MESSAGE_DEFAULT_BYTES
    """Body, attributes and key together."""
    delay: float = 0
    """Seconds that messages are held back when they do not say so themselves."""
    expires_in: float | None = None
    """Seconds after which an unread message is never handed out any more, unless it says less itself."""
    retention: float | str = UNTIL_ACKNOWLEDGED
    """`until-acknowledged` by every subscription, or seconds for which messages are kept, acknowledged or not."""
    max_retention: float = limits.RETENTION_DEFAULT_SECONDS
    """The longest that `until-acknowledged` keeps a message."""
    durability: Literal["local", "replicated", "relaxed"] = "local"
    deduplication_window: float = limits.DEDUPLICATION_DEFAULT_SECONDS


class SubscriptionSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a subscription hands messages out."""

    visibility_timeout: float = 30
    max_in_flight: int = limits.IN_FLIGHT_DEFAULT_MESSAGES
    order: Literal["none", "key", "topic"] = "none"
    fair: bool = False
    """Set back a key that has far more in flight than the others (order `none` only)."""
    delivery: Literal["at-least-once", "at-most-once"] = "at-least-once"
    max_receives: int | None = None
    dead_letter: str | None = None
    """The queue that takes messages which were received `max_receives` times (and expired ones, if so set)."""
    dead_letter_expired: bool = False
    backoff: Backoff | None = None
    """How long a released message waits when the release does not say."""
    look_ahead: int = limits.LOOK_AHEAD_DEFAULT_MESSAGES
    reader: bool = False
    """A named position per partition, moved by commit; nothing is claimed."""


def check_name(name: object, what: str = "name") -> str:
    """A name is up to 80 letters, digits, `-` and `_`, and may end in `.fifo`."""
    if not isinstance(name, str) or len(name) > limits.NAME_CHARS or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name!r:.120} is not allowed as a {what}: use 1 to {limits.NAME_CHARS} letters, digits, '-' and '_', "
            "and '.fifo' at the end where you like."
        )
    return name


def topic_settings(values: dict[str, Any]) -> TopicSettings:
    """Checked settings of a topic from plain values."""
    settings = _convert(values, TopicSettings, "topic")
    _between("partitions", settings.partitions, 1, limits.PARTITIONS_COUNT)
    _between("max_message_bytes", settings.max_message_bytes, 1, limits.MESSAGE_MAX_BYTES)
    _between("delay", settings.delay, 0, limits.DELAY_MAX_SECONDS, "seconds")
    _between("expires_in", settings.expires_in, 0.001, limits.EXPIRY_MAX_SECONDS, "seconds")
    _between("max_retention", settings.max_retention, 1, limits.RETENTION_MAX_SECONDS, "seconds")
    _between("deduplication_window", settings.deduplication_window, 1, limits.DEDUPLICATION_MAX_SECONDS, "seconds")
    if isinstance(settings.retention, str):
        if settings.retention != UNTIL_ACKNOWLEDGED:
            raise InvalidArgument(
                f"retention is {settings.retention!r}: it must be {UNTIL_ACKNOWLEDGED!r} or a number of seconds."
            )
    else:
        _between("retention", settings.retention, 1, limits.RETENTION_MAX_SECONDS, "seconds")
    return settings


def subscription_settings(values: dict[str, Any]) -> SubscriptionSettings:
    """Checked settings of a subscription from plain values."""
    settings = _convert(values, SubscriptionSettings, "subscription")
    _between("visibility_timeout", settings.visibility_timeout, 0, limits.VISIBILITY_MAX_SECONDS, "seconds")
    _between("max_in_flight", settings.max_in_flight, 1, limits.IN_FLIGHT_MAX_MESSAGES)
    _between("max_receives", settings.max_receives, 1, limits.RECEIVES_MAX_COUNT)
    _between("look_ahead", settings.look_ahead, 1, limits.LOOK_AHEAD_MAX_MESSAGES)
    _check_dead_letter(settings)
    _check_backoff(settings.backoff)
    if settings.fair and settings.order != "none":
        raise InvalidArgument(f"fair goes with order 'none' only, and order is {settings.order!r}.")
    return settings


def _check_dead_letter(settings: SubscriptionSettings) -> None:
    if settings.dead_letter is not None:
        check_name(settings.dead_letter, "dead-letter queue's name")
        if settings.max_receives is None and not settings.dead_letter_expired:
            raise InvalidArgument("dead_letter needs max_receives, or dead_letter_expired, to say what goes there.")
    elif settings.max_receives is not None or settings.dead_letter_expired:
        raise InvalidArgument("max_receives and dead_letter_expired need dead_letter: the queue to move messages to.")


def _check_backoff(backoff: Backoff | None) -> None:
    if backoff is None:
        return
    _between("backoff seconds", backoff.seconds, 0, limits.VISIBILITY_MAX_SECONDS, "seconds")
    if isinstance(backoff, Exponential):
        _between("backoff factor", backoff.factor, 1, 100)
        _between("backoff max_seconds", backoff.max_seconds, 0, limits.VISIBILITY_MAX_SECONDS, "seconds")
        _between("backoff jitter", backoff.jitter, 0, 1)


def _convert(values: dict[str, Any], kind: type[_T], what: str) -> _T:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"The {what}'s settings are not right: {error}.") from None


def _between(name: str, value: float | None, low: float, high: float, unit: str = "") -> None:
    if value is not None and not low <= value <= high:
        raise InvalidArgument(f"{name} is {value}: it must be between {low} and {high}{' ' + unit if unit else ''}.")


def differences(old: Struct, new: Struct) -> list[str]:
    """Which settings differ, as sentences' parts."""
    before, after = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    return [f"{name} is {before[name]!r}, not {after[name]!r}" for name in before if before[name] != after[name]]


def check_seconds(what: str, value: object, most: float) -> None:
    """An argument in seconds, from 0 on."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidArgument(f"{what} is {value!r:.80}: it must be from 0 to {most} seconds.")


def check_count(what: str, value: object, least: int, most: int) -> None:
    """An argument that counts or numbers something."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidArgument(f"{what} is {value!r:.80}: it must be a whole number from {least} to {most}.")


def check_prefix(prefix: object) -> None:
    """The beginning of names to list."""
    if not isinstance(prefix, str) or len(prefix) > limits.NAME_CHARS or not prefix.isprintable():
        raise InvalidArgument(
            f"prefix is {prefix!r:.120}: it must be a text of at most {limits.NAME_CHARS} characters."
        )


def check_list(what: str, values: object) -> list[Any]:
    """Several values."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{what} are {values!r:.120}: they must be a list.")
    return list(values)
