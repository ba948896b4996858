"""The port's structs as the column lists that the lane's functions take.

A list without rows is passed as NULL: that costs nothing, where an empty array costs a microsecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.store.port import Changes, MessageColumns, PageWrite, Scope

Values = tuple[Any, ...]

NOTHING = [((None,) * width,) for width in range(11)]
SELDOM = (
    "dropped_pages",
    "deduplicated",
    "unseen",
    "scheduled",
    "unscheduled",
    "delays",
    "progress",
    "partitions",
    "cursors",
    "removed_partitions",
    "removed_cursors",
)


def columns(rows: Iterable[Iterable[Any]], width: int) -> Values:
    """Rows turned into `width` columns."""
    return tuple(zip(*rows, strict=True)) or (None,) * width


def of_scope(scope: Scope) -> Values:
    """For `lock`. Known ledgers of partitions locked as a whole are named, so that their pages are compared."""
    whole = set(scope.whole)
    ledgers = set(scope.cursors)
    ledgers.update(ledger for ledger in scope.known if ledger[0] in whole)
    rows = []
    for ledger in sorted(ledgers):
        head, stamps = scope.known.get(ledger, (None, ()))
        rows.append((*ledger, head, "{" + ",".join(map(str, stamps)) + "}"))
    return (sorted(set(scope.parts)) or None, sorted(whole) or None, *columns(rows, 4))


def of_one(changes: Changes, clock_shift: int) -> Values | None:
    """For `attempt_one`; None when there is more than that can carry."""
    turn, messages, pages = changes.turn, changes.messages, changes.pages
    if (
        turn.previous_writer != turn.writer
        or len(messages.seqs) > 1
        or len(pages) > 1
        or len(changes.expected_parts) > 1
        or len(changes.expected_cursors) > 1
        or (pages and pages[0].was == 0)
        or any(getattr(changes, name) for name in SELDOM)
    ):
        return None
    return (
        changes.decided_at - clock_shift,
        *(changes.expected_parts or NOTHING[3])[0],
        *(changes.expected_cursors or NOTHING[4])[0],
        turn.writer,
        turn.stamp,
        turn.previous,
        *(column[0] if column else None for column in astuple(messages)),
        *((*astuple(pages[0].row), pages[0].was) if pages else NOTHING[10][0]),
    )


def of_attempt(changes: Changes, clock_shift: int) -> Values:
    """For `attempt`: what is expected, then what is written."""
    unseen = [*changes.unseen, *((row.part, row.bucket, row.scope, row.id) for row in changes.deduplicated)]
    return (
        changes.decided_at - clock_shift,
        *columns(sorted(changes.expected_parts), 3),
        *columns(sorted(changes.expected_cursors), 4),
        *columns(unseen, 4),
        *of_changes(changes),
    )


def of_changes(changes: Changes) -> Values:
    """For `put`, in the order of its parameters."""
    turn = changes.turn
    return (
        turn.writer,
        turn.stamp,
        turn.previous_writer,
        turn.previous,
        *_messages(changes.messages),
        *_pages(changes.pages),
        *columns(map(astuple, changes.dropped_pages), 5),
        *columns(map(astuple, changes.deduplicated), 7),
        *columns(map(astuple, changes.scheduled), 9),
        *columns(changes.unscheduled, 3),
        *columns(map(astuple, changes.delays), 2),
        *columns(map(astuple, changes.progress), 3),
        *columns(((row.part, row.version, row.first, row.swept) for row in changes.partitions), 4),
        *columns(changes.cursors, 3),
        changes.removed_partitions or None,
        *columns(changes.removed_cursors, 2),
    )


def _messages(messages: MessageColumns) -> Values:
    """Messages as one run where they are alike, else by column: part, sequence, time and ids, then the columns."""
    columns = (column or None for column in astuple(messages))
    if not messages.seqs or not _is_run(messages):
        return (None, None, None, None, *columns)
    _, _, _, _, _, expires_at, due_at, keys, attributes, origins, sizes, bodies = columns
    if sizes == list(map(len, messages.bodies)):
        sizes = None
    run = (messages.parts[0], messages.seqs[0], messages.published_at[0], b"".join(messages.ids))
    return (*run, None, None, None, None, None, expires_at, due_at, keys, attributes, origins, sizes, bodies)


def _is_run(messages: MessageColumns) -> bool:
    """Whether they are consecutive messages of one partition, all accepted and published at one time."""
    count, time = len(messages.seqs), messages.published_at[0]
    return (
        messages.parts.count(messages.parts[0]) == count
        and messages.seqs == list(range(messages.seqs[0], messages.seqs[0] + count))
        and messages.published_at.count(time) == count
        and messages.accepted_at.count(time) == count
    )


def _pages(writes: list[PageWrite]) -> Values:
    """How many of the pages are new, and their columns."""
    new = sum(write.was == 0 for write in writes)
    return (new, *columns(((*astuple(write.row), write.was) for write in writes), 10))
