"""The settings of queues, topics and subscriptions as options: one table for create and alter."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec
import typer
from msgspec import Struct

from rowlock import limits
from rowlock.cli.options import duration, one_of
from rowlock.settings import UNTIL_ACKNOWLEDGED, SubscriptionSettings, TopicSettings

if TYPE_CHECKING:
    from collections.abc import Callable

NONE = "none"
"""What takes a setting back to nothing."""


class _Nothing:
    """`none` was given: as opposed to the option not being given."""


NOTHING = _Nothing()


def _or_none(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: NOTHING if text == NONE else parse(text)


def retention(text: str) -> float | str:
    return text if text == UNTIL_ACKNOWLEDGED else duration(text)


def backoff(text: str) -> dict[str, Any]:
    """`fixed:5s`, or `exponential:1s` with more if one likes: `exponential:1s,factor=3,max=10m,jitter=0.1`."""
    kind, _, rest = text.partition(":")
    first, *more = rest.split(",")
    try:
        found: dict[str, Any] = {"kind": kind, "seconds": duration(first)}
        for one in more:
            name, value = one.split("=")
            found |= (
                {"max_seconds": duration(value)}
                if name == "max"
                else {{"factor": name, "jitter": name}[name]: float(value)}
            )
    except (ValueError, KeyError, typer.BadParameter):
        kind = ""
    if kind not in ("fixed", "exponential") or (kind == "fixed" and more):
        raise typer.BadParameter(
            f"{text!r} is no backoff: write fixed:5s or exponential:1s, and if you like exponential:1s,factor=2,max=1h,jitter=0.2."
        )
    return found


def count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no whole number.") from None


class Shape(Struct):
    """How a setting looks on the command line."""

    help: str
    parser: Any = None
    metavar: str = "TIME"


def _words(*allowed: str) -> tuple[Any, str]:
    return one_of("choice", *allowed), "|".join(allowed)


SHAPES = {
    "partitions": Shape(
        f"How many partitions, up to {limits.PARTITIONS_COUNT}; there can be more later, never fewer.", count, "NUMBER"
    ),
    "max_message_bytes": Shape(
        f"The largest message: body, attributes and key together; up to {limits.MESSAGE_MAX_BYTES}.", count, "BYTES"
    ),
    "delay": Shape("Hold back messages that name no delay of their own.", duration),
    "expires_in": Shape(
        "When unread messages expire, unless they say less themselves.", _or_none(duration), "TIME|none"
    ),
    "retention": Shape(
        "Keep messages until every subscription has settled them, or for this time.",
        retention,
        f"{UNTIL_ACKNOWLEDGED}|TIME",
    ),
    "max_retention": Shape(f"The longest that {UNTIL_ACKNOWLEDGED} keeps a message.", duration),
    "durability": Shape(
        "When a publish is answered: on this server's disk, on a standby's too, or before (and may be lost at a power cut).",
        *_words("local", "replicated", "relaxed"),
    ),
    "deduplication_window": Shape("For how long a deduplication id is remembered.", duration),
    "visibility_timeout": Shape("How long a received message is yours before others get it.", duration),
    "max_in_flight": Shape("How many messages may be received and not settled at once.", count, "NUMBER"),
    "order": Shape(
        "What is handed out in order: nothing, the messages of a key, or the whole topic.",
        *_words("none", "key", "topic"),
    ),
    "fair": Shape("Set back a key that has far more in flight than the others."),
    "delivery": Shape(
        "Hand a message out again when it was not settled in time, or never.", *_words("at-least-once", "at-most-once")
    ),
    "max_receives": Shape(
        "After so many receives a message goes to the dead-letter queue.", _or_none(count), "NUMBER|none"
    ),
    "dead_letter": Shape(
        "The queue that takes what failed; it is created if it is missing.", _or_none(str), "QUEUE|none"
    ),
    "dead_letter_expired": Shape("Send expired messages to the dead-letter queue, too."),
    "backoff": Shape(
        "How long a released message waits: fixed:5s, or exponential:1s,factor=2,max=1h,jitter=0.2.",
        _or_none(backoff),
        "BACKOFF|none",
    ),
    "look_ahead": Shape("How far an ordered subscription looks past keys that are busy.", count, "NUMBER"),
}
"""`reader` is not among them: `subscription create --reader` makes one, and it stays one."""


def with_settings(*kinds: type[Struct], creating: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter `settings` by an option for every setting of these kinds."""
    defaults = {
        field.name: field.default for kind in kinds for field in msgspec.structs.fields(kind) if field.name in SHAPES
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def decorated(**given: Any) -> None:
            named = {name: value for name in defaults if (value := given.pop(name)) is not None}
            command(settings={name: None if value is NOTHING else value for name, value in named.items()}, **given)

        hints = get_type_hints(command, include_extras=True)
        parameters = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name != "settings":
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
                continue
            for name, default in defaults.items():
                parameters.append(_option(name, default if creating else None))
        decorated.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        decorated.__annotations__ = {one.name: one.annotation for one in parameters}
        del decorated.__wrapped__  # type: ignore[attr-defined]
        return decorated

    return decorate


def _option(name: str, default: Any) -> inspect.Parameter:
    shape = SHAPES[name]
    says = shape.help if default is None else f"{shape.help} (default: {_told(default)})"
    if shape.parser is None:
        annotation: Any = Annotated[bool | None, typer.Option(help=says, show_default=False)]
    else:
        option = typer.Option(help=says, parser=shape.parser, metavar=shape.metavar, show_default=False)
        annotation = Annotated[Any, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _told(default: Any) -> str:
    return ("no", "yes")[default] if isinstance(default, bool) else str(default)


QUEUE = (TopicSettings, SubscriptionSettings)
TOPIC = (TopicSettings,)
SUBSCRIPTION = (SubscriptionSettings,)
