"""What a cycle reads: whether what is remembered still holds, what was there under lock, and the messages to decide
about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, filterfalse, groupby
from typing import NamedTuple

from rowlock import limits
from rowlock.broker.draft import Draft
from rowlock.broker.memory import Memory, Partition
from rowlock.broker.work import Outdated, Place, Work
from rowlock.ledger import stored
from rowlock.ledger.ledger import Ledger
from rowlock.store.port import Cursor, Lane, Scope, Stored, View, Wanted

_LEAST_BYTES = 64 * 1024
"""A range read gets its share of the bytes to read ahead, and at least this."""


class Checked(NamedTuple):
    """What a survey found: cursors that are just as remembered, and works that have nothing to do."""

    verified: set[Cursor]
    idle_works: set[int]

    def idle(self, work: Work) -> bool:
        return id(work) in self.idle_works


async def survey(lane: Lane, draft: Draft, works: list[Work]) -> Checked | None:
    """Whether the works can be decided from memory; None when something is not known, or is known to have changed.

    A work that would find nothing to do must not be answered from memory alone: one statement asks for all of these.
    """
    memory = draft.memory
    for work in works:
        if work.needs_lock or not _is_known(memory, work, draft.now):
            return None
    growing = {part for work in works if work.grows for part in work.parts}
    idle = [work for work in works if growing.isdisjoint(part for part, _ in work.places) and work.is_idle(draft)]
    if not idle:
        return Checked(set(), set())
    verified: set[Cursor] = set()
    for position in await lane.positions(sorted({cursor for work in idle for cursor in work.places})):
        cursor = (position.part, position.sub)
        remembered, partition = memory.ledgers[cursor], memory.partitions[position.part]
        if remembered.is_at(position):
            verified.add(cursor)
        partition.heard_of(position.last)
    if any(cursor not in verified for work in idle for cursor in work.places):
        return None
    return Checked(verified, {id(work) for work in idle if work.is_idle(draft)})


def _is_known(memory: Memory, work: Work, now: int) -> bool:
    for part, version in work.parts.items():
        partition = memory.partitions.get(part)
        if partition is None or partition.version != version or partition.last_at is None:
            return False
    for cursor, place in work.places.items():
        ledger = memory.ledger(cursor, place.version)
        if ledger is None or cursor[0] not in memory.partitions or ledger.at > now + limits.CYCLE_CLOCK_MS:
            return False
    return True


def scope_of(memory: Memory, works: list[Work]) -> Scope:
    """What the works lock, and what need not be read again."""
    places = {cursor: place for work in works for cursor, place in work.places.items()}
    known = {cursor: memory.ledger(cursor, place.version) for cursor, place in places.items()}
    return Scope(
        parts=sorted({part for work in works for part in work.parts}),
        cursors=sorted(places),
        whole=sorted({part for work in works for part in work.whole}),
        known={cursor: stored.stamps(ledger) for cursor, ledger in known.items() if ledger is not None},
    )


async def absorb(lane: Lane, memory: Memory, view: View, works: list[Work]) -> list[Work]:
    """Make memory what was found under lock. Works that were made from an outdated catalog fail; the others are
    returned."""
    for part, row in view.partitions.items():
        memory.partitions[part] = Partition(row)
    current = [work for work in works if _is_current(view, work)]
    places = {cursor: place for work in current for cursor, place in work.places.items()}
    for cursor in places:
        if _is_ahead(memory, view, cursor):
            memory.forget(cursor)
            view.pages[cursor] = await lane.pages(cursor)
    for cursor, rows in view.pages.items():
        if cursor in places:
            await _load(lane, memory, cursor, places[cursor], rows)
        else:
            memory.forget(cursor)
    return current


def _is_current(view: View, work: Work) -> bool:
    """Whether the lock rows have the versions that the work was made from; if not, it is sent back to the catalog."""
    parts_agree = all(
        part in view.partitions and view.partitions[part].version == version for part, version in work.parts.items()
    )
    places_agree = all(
        cursor in view.cursors and view.cursors[cursor].version == place.version
        for cursor, place in work.places.items()
    )
    unforeseen = work.whole and [one for one in view.cursors if one[0] in work.whole and one not in work.places]
    if parts_agree and places_agree and not unforeseen:
        return True
    work.fail(Outdated())
    return False


def _is_ahead(memory: Memory, view: View, cursor: Cursor) -> bool:
    """Whether a remembered ledger was looked at for a time that has not come: this process's clock was ahead. It takes
    for open what others hold, and time never runs backward in it."""
    remembered, head = memory.ledgers.get(cursor), view.cursors[cursor].head
    if remembered is None:
        return False
    return remembered.ledger.at > max(view.clock + limits.CYCLE_CLOCK_MS, head.at if head else 0)


async def _load(lane: Lane, memory: Memory, cursor: Cursor, place: Place, rows: Sequence[stored.PageLike]) -> None:
    """Bring a ledger to what is stored."""
    ledger = memory.ledger(cursor, place.version)
    if ledger is None:
        ledger = Ledger(place.rules)
        if any(row.data is None for row in rows):
            rows = await lane.pages(cursor)
    came = stored.incoming(ledger, rows)
    part = cursor[0]
    keys = {}
    if came.unknown:
        known = memory.log(part)
        missing = [(part, seq) for seq in came.unknown if seq not in known]
        keys = {seq: known[seq].key for seq in came.unknown if seq in known}
        for at in range(0, len(missing), 10_000):
            keys |= {message.seq: message.key for message in await lane.messages([], missing[at : at + 10_000])}
    stored.install(ledger, came, keys)
    memory.remember(cursor, ledger, place.version)


async def fetch(lane: Lane, draft: Draft, works: list[Work]) -> None:
    """Read the messages that the works want and memory lacks, in one statement."""
    for cursor in {cursor for work in works for cursor in work.probes()}:
        ledger = draft.ledger(cursor)
        live, _ = await lane.first_live(cursor[0], ledger.frontier, limits.EXPIRE_STEP_MESSAGES, draft.now)
        draft.live_from[cursor] = live
    ranges: list[Wanted] = []
    seqs: set[tuple[int, int]] = set()
    for work in works:
        work.demand(draft)
    for wanted in chain(_next_of_ledgers(draft), *[work.wanted(draft) for work in works]):
        if isinstance(wanted, Wanted):
            ranges.append(wanted)
        else:
            seqs.add(wanted)
    if not ranges and not seqs:
        return
    widest = {(wanted.part, wanted.start): wanted for wanted in sorted(ranges, key=lambda one: one.stop)}
    messages = await lane.messages(list(widest.values()), sorted(seqs))
    for part, found in groupby(sorted(messages, key=_part), key=_part):
        draft.memory.learn(part, list(found))


def _next_of_ledgers(draft: Draft) -> Iterator[Wanted | tuple[int, int]]:
    """What memory lacks of the messages that all claims of a cycle may be handed, and some more ahead."""
    for cursor, demand in draft.demands.items():
        part = cursor[0]
        ledger, log, last = draft.ledger(cursor), draft.log(part), draft.last(part)
        for seq in ledger.opened(demand) if ledger.open else ():
            if seq not in log:
                yield part, seq
        start = max(ledger.frontier, draft.live_from.get(cursor, 0))
        missing = next(filterfalse(log.__contains__, range(start, min(last + 1, start + demand))), None)
        if missing is not None:
            ahead = min(last + 1, missing + max(demand, limits.READ_AHEAD_MESSAGES))
            share = max(limits.READ_AHEAD_BYTES // len(draft.demands), _LEAST_BYTES)
            yield Wanted(part, missing, ahead, share * (4 if demand > 100 else 1))


def _part(message: Stored) -> int:
    return message.part
