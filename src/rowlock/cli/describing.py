"""How topics, queues and subscriptions are listed and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn

from rowlock.cli.output import (
    age,
    bar,
    console,
    note,
    plain,
    plural,
    print_json,
    print_table,
    span,
    when,
    without_password,
)
from rowlock.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.blocking import Broker
    from rowlock.model import Depth, Description

TIMES = frozenset({"delay", "expires_in", "retention", "max_retention", "deduplication_window", "visibility_timeout"})
LONG = 50
"""Above so many, looking up depths shows a progress bar."""


def print_list(
    broker: Broker, found: Sequence[Description], kind: str, store: str, *, depths: bool, json: bool
) -> None:
    """A table of what there is, with depths where they are asked for."""
    looked = _depths(broker, found, shown=not json) if depths else {}
    if json:
        print_json([_listed(one, looked.get(one.name), depths=depths) for one in found])
    elif not found:
        note(f"There is no such {kind} in {without_password(store)}.")
    else:
        counted = ["#Ready", "#In flight", "#Delayed", "#Oldest"] if depths else []
        rows = [
            [one.name, *_counts(looked.get(one.name), depths=depths), when(one.created_at), one.owner] for one in found
        ]
        print_table([kind.capitalize(), *counted, "Created", "Owner"], rows)


def _depths(broker: Broker, found: Sequence[Description], *, shown: bool) -> dict[str, Depth]:
    looked = {}
    with bar("Looking up depths", BarColumn(), MofNCompleteColumn(), shown=shown and len(found) > LONG) as progress:
        for one in progress.track(found):
            try:
                looked[one.name] = broker.depth(one.name)
            except NotFound:
                continue  # It was deleted a moment ago.
    return looked


def _listed(one: Description, depth: Depth | None, *, depths: bool) -> dict[str, Any]:
    listed = {"name": one.name, "kind": one.kind, "created_at": one.created_at, "owner": one.owner}
    return listed | ({"depth": depth_json(depth)} if depths else {})


def _counts(depth: Depth | None, *, depths: bool) -> list[object]:
    if not depths:
        return []
    if depth is None:
        return [None] * 4
    return [depth.ready, depth.in_flight, depth.delayed, age(depth.oldest_age)]


def depth_json(depth: Depth | None) -> dict[str, Any] | None:
    return None if depth is None else {**plain(depth), "total": depth.total}


def print_description(one: Description, *, json: bool) -> None:
    """Everything that is known of one."""
    if json:
        print_json({**plain(one), "depth": depth_json(one.depth)})
        return
    console().print(f"[bold]{one.name}[/bold]  {one.kind}, created {when(one.created_at)} by {one.owner}")
    if one.kind != "queue" and one.topics:
        console().print(f"reads {', '.join(one.topics)}")
    if one.depth is not None:
        _print_depth(one.depth)
    print_table(["Setting", "Value"], [[name, _setting(name, value)] for name, value in one.settings.items()])
    if one.partitions:
        names = list(one.partitions[0])
        heads = [name.capitalize() if name == "topic" else f"#{name.capitalize()}" for name in names]
        print_table(heads, [[partition[name] for name in names] for partition in one.partitions])


def _print_depth(depth: Depth) -> None:
    parts = [f"{depth.ready:,} ready", f"{depth.in_flight:,} in flight", f"{depth.delayed:,} delayed"]
    if depth.dying:
        parts.append(f"{depth.dying:,} about to be dead-lettered")
    oldest = "" if depth.oldest_age is None else f"; the oldest is {age(depth.oldest_age)} old"
    console().print(f"{plural(depth.total, 'message')}: {', '.join(parts)}{oldest}")


def _setting(name: str, value: object) -> object:
    if name in TIMES and isinstance(value, (int, float)):
        return span(value)
    if isinstance(value, dict):
        return backoff_text(value)
    return value


def backoff_text(value: dict[str, Any]) -> str:
    """As one writes it for --backoff."""
    more = [f"{name}={value[name]:g}" for name in ("factor", "jitter") if name in value]
    more += [f"max={value['max_seconds']:g}s"] if "max_seconds" in value else []
    return ",".join([f"{value['kind']}:{value['seconds']:g}s", *more])
