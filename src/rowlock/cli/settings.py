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
from rowlock.cli.output import span
from rowlock.settings import UNTIL_ACKNOWLEDGED, SubscriptionSettings, TopicSettings

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE = (TopicSettings, SubscriptionSettings)
TOPIC = (TopicSettings,)
SUBSCRIPTION = (SubscriptionSettings,)
PANELS = {TopicSettings: "How messages are kept", SubscriptionSettings: "How messages are handed out"}


class _Nothing:
    """`none` was given, as opposed to the option not being given."""


NOTHING = _Nothing()


def or_none(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: NOTHING if text == "none" else parse(text)


def count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no whole number.") from None


def retention(text: str) -> float | str:
    return text if text == UNTIL_ACKNOWLEDGED else duration(text)


def backoff(text: str) -> dict[str, Any]:
    """`fixed:5s`; `exponential:1s`, with more if one likes: `exponential:1s,factor=3,max=10m,jitter=0.1`."""
    kind, _, rest = text.partition(":")
    first, *more = rest.split(",")
    try:
        found = {"kind": kind, "seconds": duration(first), **dict(map(_backoff_part, more))}
    except (ValueError, typer.BadParameter):
        kind = ""
    if kind not in ("fixed", "exponential") or (kind == "fixed" and more):
        raise typer.BadParameter(
            f"{text!r} is no backoff: write fixed:5s, or exponential:1s, or exponential:1s,factor=2,max=1h,jitter=0.2."
        )
    return found


def _backoff_part(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name == "max":
        return "max_seconds", duration(value)
    return one_of("part", "factor", "jitter")(name), float(value)


class Shape(Struct):
    """How a setting looks on the command line."""

    help: str
    metavar: str = "TIME"
    parser: Any = duration
    """None: a flag."""


SHAPES = {
    "partitions": Shape(f"Up to {limits.PARTITIONS_COUNT}; there can be more later, never fewer.", "N", count),
    "max_message_bytes": Shape(
        f"The largest message: body, attributes and key; up to {limits.MESSAGE_MAX_BYTES}.", "N", count
    ),
    "delay": Shape("Hold back messages that name no delay themselves."),
    "expires_in": Shape(
        "Unread messages expire, unless they name less themselves; or none.", "TIME", or_none(duration)
    ),
    "retention": Shape(f"Keep messages {UNTIL_ACKNOWLEDGED} by every subscription, or for a time.", "TIME", retention),
    "max_retention": Shape(f"The longest that {UNTIL_ACKNOWLEDGED} keeps a message."),
    "durability": Shape(
        "A publish is on disk here (local), on a standby's, too (replicated), or may be lost (relaxed).",
        "WORD",
        one_of("durability", "local", "replicated", "relaxed"),
    ),
    "deduplication_window": Shape("Remember deduplication ids for so long."),
    "visibility_timeout": Shape("A received message is yours for so long, before others get it."),
    "max_in_flight": Shape("So many messages may be received and not settled at once.", "N", count),
    "order": Shape(
        "Hand out in order: none, by key, or the whole topic.", "WORD", one_of("order", "none", "key", "topic")
    ),
    "fair": Shape("Set back a key that has far more in flight than others.", "", None),
    "delivery": Shape(
        "at-least-once, or at-most-once: never again, settled or not.",
        "WORD",
        one_of("delivery", "at-least-once", "at-most-once"),
    ),
    "max_receives": Shape("Dead-letter a message after so many receives; or none.", "N", or_none(count)),
    "dead_letter": Shape("The dead-letter queue, created if missing; or none.", "QUEUE", or_none(str)),
    "dead_letter_expired": Shape("Dead-letter what expires, too.", "", None),
    "backoff": Shape(
        "A released message waits: fixed:5s, or exponential:1s, or none.",
        "TEXT",
        or_none(backoff),
    ),
    "look_ahead": Shape("In order, look so many messages past keys that are busy.", "N", count),
}
"""`reader` is not among them: `subscription create --reader` makes one, and it stays one."""


def with_settings(*kinds: type[Struct], creating: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter `settings` by an option for every setting of these kinds."""
    options = [
        _option(field, PANELS[kind], creating=creating)
        for kind in kinds
        for field in msgspec.structs.fields(kind)
        if field.name in SHAPES
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def decorated(**given: Any) -> None:
            named = {option.name: given.pop(option.name) for option in options}
            settings = {name: None if value is NOTHING else value for name, value in named.items() if value is not None}
            if not settings and not creating:
                raise typer.BadParameter("Name at least one setting to change.")
            command(settings=settings, **given)

        _declare(decorated, _parameters(command, options))
        return decorated

    return decorate


def _parameters(command: Callable[..., None], options: list[inspect.Parameter]) -> list[inspect.Parameter]:
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        own = [parameter.replace(annotation=hints[parameter.name])]
        parameters += options if parameter.name == "settings" else own
    return parameters


def _declare(command: Any, parameters: list[inspect.Parameter]) -> None:
    """Say of a function that it has these parameters: typer looks at its signature and its annotations."""
    del command.__wrapped__
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}


def _option(field: msgspec.structs.FieldInfo, panel: str, *, creating: bool) -> inspect.Parameter:
    shape = SHAPES[field.name]
    default = _told(field.default, shape) if creating else ""
    told: dict[str, Any] = {"help": shape.help + default, "show_default": False, "rich_help_panel": panel}
    if shape.parser is None:
        annotation: Any = Annotated[bool | None, typer.Option(metavar="", **told)]
    else:
        annotation = Annotated[Any, typer.Option(parser=shape.parser, metavar=shape.metavar, **told)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _told(default: Any, shape: Shape) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return f" \\[default: {'yes' if default else 'no'}]"
    return f" \\[default: {span(default) if shape.metavar == 'TIME' and not isinstance(default, str) else default}]"
