"""What must be kept: invariants 1 (durable), 2 (never forgotten), 7 (for every subscription), 8 (used once)."""

from __future__ import annotations

from itertools import pairwise

from rowlock.simulate.finding import Finding
from rowlock.simulate.history import NEVER, HandOut, History, Message, at
from rowlock.simulate.streams import Stream


def durable(history: History) -> Finding:
    """An acknowledged message is stored, once and as published: it is settled, or dead-lettered, or it expires."""
    finding = Finding()
    finding.violations += [f"{stray} was never published" for stray in history.unpublished]
    for message in history.acknowledged():
        finding.checked += 1
        stream = history.streams.of(message.topic)
        missing = [name for name in stream.subscriptions if not _is_done(message, name, stream)]
        # What one subscription has and another has not was stored, and removed too early: that is invariant 7.
        if len(missing) == len(stream.subscriptions):
            finding.accuse(_lost(message, missing))
        ids = _ids(message)
        if len(ids) > 1:
            finding.accuse(f"{message.name} was stored more than once: as {', '.join(sorted(ids))}")
    for one in history.hand_outs():
        finding.checked += 1
        if not one.handed.intact or one.handed.key != one.message.key:
            finding.accuse(f"{one} is not what was published")
    return finding


def complete(history: History) -> Finding:
    """Of a topic with several subscriptions, each gets every message."""
    finding = Finding()
    for message in history.acknowledged():
        stream = history.streams.of(message.topic)
        if len(stream.subscriptions) < 2:
            continue
        finding.checked += 1
        missing = [name for name in stream.subscriptions if not _is_done(message, name, stream)]
        if 0 < len(missing) < len(stream.subscriptions):
            finding.accuse(_lost(message, missing))
    return finding


def never_forgotten(history: History) -> Finding:
    """What was handed out is never new again; what was given up never comes back."""
    finding = Finding()
    for given in history.by_subscription():
        finding.checked += len(given)
        for earlier, later in pairwise(given):
            if earlier.at < later.asked and later.receives <= earlier.receives:
                finding.accuse(f"{later} though it had been handed out before: {earlier}")
        buried = _dead_lettered_at(history, given[0])
        for one in given:
            if one.asked > buried:
                finding.accuse(f"{one} after it had been handed out as a dead letter at {at(buried)}")
    return finding


def used_once(history: History) -> Finding:
    """No sequence of a partition is given to two messages."""
    finding = Finding()
    users: dict[tuple[str, int, int], str] = {}
    places = [
        (message.topic, stored.partition, stored.sequence, stored.id)
        for message in history.acknowledged()
        for stored in message.acknowledged
        if stored.sequence is not None
    ]
    for one in history.hand_outs():
        stream = history.streams.read_by(one.subscription)
        if stream.partitions == 1:  # a hand-out does not tell its partition
            places.append((stream.topic, 0, one.handed.sequence, one.handed.id))
    for topic, partition, sequence, id_ in places:
        finding.checked += 1
        user = users.setdefault((topic, partition, sequence), id_)
        if user != id_:
            finding.accuse(f"Sequence {sequence} of {topic}/{partition} was used twice: by {user} and by {id_}")
    return finding


def _is_done(message: Message, subscription: str, stream: Stream) -> bool:
    """Whether it was settled, here or as a dead letter, or expired; a settle that may have happened is enough."""
    if message.expires_in is not None or _may_be_settled(message, subscription):
        return True
    return stream.dead_letter is not None and _may_be_settled(message, stream.dead_letter)


def _may_be_settled(message: Message, subscription: str) -> bool:
    given = message.handed.get(subscription, [])
    return any(settle.may_have_happened for one in given for settle in one.settles)


def _ids(message: Message) -> set[str]:
    """Under which it was acknowledged and handed out."""
    handed = {one.handed.id for given in message.handed.values() for one in given}
    return handed | {stored.id for stored in message.acknowledged}


def _dead_lettered_at(history: History, one: HandOut) -> float:
    """When somebody was first told that it is in the dead-letter queue."""
    dead = history.streams.read_by(one.subscription).dead_letter
    return NEVER if dead is None else min((copy.at for copy in one.message.handed.get(dead, [])), default=NEVER)


def _lost(message: Message, missing: list[str]) -> str:
    stored = message.acknowledged[0]
    handed = sum(len(message.handed.get(name, [])) for name in missing)
    sequence = "a place in the schedule" if stored.sequence is None else f"sequence {stored.sequence}"
    return (
        f"{message.name} was acknowledged at {at(message.publishes[0].ended)} as {stored.id} with {sequence} of "
        f"{message.topic}/{stored.partition}; {' and '.join(missing)} was handed it {handed} times and never settled it"
    )
