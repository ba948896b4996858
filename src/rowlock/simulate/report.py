"""The outcome of a run, for people and for machines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from rowlock.simulate import faults, options, records
from rowlock.simulate.history import History, Message
from rowlock.simulate.verdict import Judged

SHOWN_COUNT = 5

MEANINGS = {
    1: "an acknowledged message is stored, durably, and once",
    2: "what was handed out is never new again",
    3: "one holder at a time",
    4: "only the holder settles",
    5: "nothing comes back after its settle, or after its expiry",
    6: "a key's messages come in order, one answer at a time",
    7: "every subscription gets every message",
    8: "no sequence is used twice",
}


class Outcome(Struct):
    """All that a run tells."""

    published: int
    claimed: int
    settled: int
    redelivered: int
    expired: int
    dead_lettered: int
    duplicates: int
    kills: dict[str, int]
    invariants: list[Judged]
    happened: dict[str, int]
    """What processes did to themselves on purpose."""
    seed: int
    records: Path
    troubles: list[str]
    """Why it is not fine, other than by an invariant."""

    @property
    def ok(self) -> bool:
        return not self.troubles and not any(one.violations for one in self.invariants)


def outcome(
    history: History, judged: list[Judged], kills: Counter[str], troubles: list[str], seed: int, directory: Path
) -> Outcome:
    hand_outs = list(history.hand_outs())
    given = list(history.by_subscription())
    dead = {stream.dead_letter for stream in history.streams.all}
    acknowledged = history.acknowledged()
    return Outcome(
        published=len(acknowledged),
        claimed=len(hand_outs),
        settled=sum(any(one.settled_at is not None for one in some) for some in given),
        redelivered=sum(one.receives > 1 for one in hand_outs),
        expired=sum(message.expires_in is not None and not _is_settled(message) for message in acknowledged),
        dead_lettered=sum(some[0].subscription in dead for some in given),
        duplicates=sum(stored.duplicate for message in acknowledged for stored in message.acknowledged),
        kills={
            "consumers": history.happened[records.DIED],
            "stalls": history.happened[records.STALLED],
            **{name: kills[name] for name in (faults.KILLED, faults.STOPPED, faults.CRASHED)},
        },
        invariants=judged,
        happened=dict(history.happened),
        seed=seed,
        records=directory,
        troubles=[*troubles, *sorted(set(history.troubles))],
    )


def _is_settled(message: Message) -> bool:
    return any(settle.may_have_happened for given in message.handed.values() for one in given for settle in one.settles)


def missing(found: Outcome, asked: frozenset[str]) -> list[str]:
    """What was asked for and did not happen, and what was not checked at all."""
    happened = {
        options.CONSUMERS: min(found.kills["consumers"], found.kills["stalls"]),
        options.BROKERS: min(found.kills[faults.KILLED], found.kills[faults.STOPPED]),
        options.DATABASE: found.kills[faults.CRASHED],
        options.DUPLICATES: found.duplicates,
        options.EXPIRY: found.expired,
    }
    never = [name for name in options.FAULTS if name in asked and not happened[name]]
    return [
        *(f"The fault {name!r} was asked for and never happened." for name in never),
        *(f"Invariant {one.number} was checked on nothing." for one in found.invariants if not one.checked),
    ]


def as_json(found: Outcome) -> str:
    numbers = ("published", "claimed", "settled", "redelivered", "expired", "dead_lettered", "kills")
    told = {
        "ok": found.ok,
        **{name: getattr(found, name) for name in numbers},
        "invariants": [
            {"number": one.number, "checked": one.checked, "violations": len(one.violations)}
            for one in found.invariants
        ],
    }
    return msgspec.json.encode(told).decode()


def show(found: Outcome, console: Console) -> None:
    table = Table(title="The verdict", title_justify="left")
    table.add_column("invariant", justify="right")
    table.add_column("meaning")
    table.add_column("checked", justify="right")
    table.add_column("violations", justify="right")
    for one in found.invariants:
        bad = len(one.violations)
        style = "bold red" if bad else "yellow" if not one.checked else "green"
        table.add_row(str(one.number), MEANINGS[one.number], f"{one.checked:,}", Text(str(bad), style))
    counts = (
        f"{found.published:,} published, {found.claimed:,} handed out ({found.redelivered:,} again), "
        f"{found.settled:,} settled, {found.expired:,} expired, {found.dead_lettered:,} dead-lettered, "
        f"{found.duplicates:,} duplicates kept out"
    )
    broken = ", ".join(f"{count} {name}" for name, count in found.kills.items())
    console.print(Group(table, Text(counts), Text(f"killed or held up: {broken}")))


def complain(found: Outcome, console: Console) -> None:
    """What is wrong, with examples."""
    for one in found.invariants:
        for sentence in one.violations[:SHOWN_COUNT]:
            console.print(Text(f"Invariant {one.number}: {sentence}", "red"))
        if len(one.violations) > SHOWN_COUNT:
            console.print(Text(f"Invariant {one.number}: ... and {len(one.violations) - SHOWN_COUNT} more", "red"))
    for trouble in found.troubles:
        console.print(Text(trouble, "red"))
    if not found.ok:
        console.print(f"The seed of this run is {found.seed}; its records are kept in {found.records}", highlight=False)
