"""Grants and pages: what a ledger knows of 128 consecutive sequences, in memory and as stored bytes.

A page maps each of its sequences to a grant: `slots` is one byte per sequence, 0 for a message that is done or was
never handed out, else the number of a grant in `grants`. The stored form is the same: a count, the grants, the slots.
"""

from __future__ import annotations

from struct import Struct

from rowlock.errors import Defect
from rowlock.limits import PAGE_MESSAGES

SHIFT = PAGE_MESSAGES.bit_length() - 1
MASK = PAGE_MESSAGES - 1
EMPTY = bytes(PAGE_MESSAGES)
GRANTS_MAX = 255

_GRANT = Struct("<qqqHB")


class Grant:
    """What a cycle handed out with one timeout, or holds back until one time. Never changed once made."""

    __slots__ = ("claim", "first_received", "held", "packed", "pages", "receives", "timed", "visible_at")

    def __init__(self, claim: int, visible_at: int, receives: int, first_received: int, held: bool):
        self.claim = claim
        """The claim number of its last holder; 0 when it never had one."""
        self.visible_at = visible_at
        self.receives = receives
        self.first_received = first_received
        self.held = held
        """False: nobody holds it; it waits until visible_at for a retry, its due time, or its key."""
        self.packed = _GRANT.pack(claim, visible_at, first_received, min(receives, 0xFFFF), held)
        self.pages: list[int] = []
        """The pages it was put into; an index for timers, never stored."""
        self.timed = False
        """Whether a timer of its ledger is set for it."""


def unpack_grant(packed: bytes) -> Grant:
    claim, visible_at, first_received, receives, held = _GRANT.unpack(packed)
    return Grant(claim, visible_at, receives, first_received, bool(held))


class Page:
    """The grants of sequences number * 128 to number * 128 + 127, and which stored row carries them."""

    __slots__ = ("changes", "era", "grants", "number", "slots", "stamp")

    def __init__(self, number: int, era: int = 0, stamp: int = 0):
        self.number = number
        self.era = era
        self.stamp = stamp
        """Of the stored row; 0 when there is none."""
        self.changes = 0
        """How often the row was rewritten in this era, as far as this process knows."""
        self.slots = bytearray(EMPTY)
        self.grants: list[Grant] = []

    @property
    def outstanding(self) -> int:
        return PAGE_MESSAGES - self.slots.count(0)

    def put(self, start: int, stop: int, grant: Grant) -> None:
        """Give offsets start to stop (exclusive) to a grant."""
        self.slots[start:stop] = bytes((self._number_of(grant),)) * (stop - start)

    def _number_of(self, grant: Grant) -> int:
        grants = self.grants
        if grants and grants[-1] is grant:
            return len(grants)
        for number, known in enumerate(grants, 1):
            if known is grant:
                return number
        if len(grants) == GRANTS_MAX:
            self.compact()
        self.grants.append(grant)
        grant.pages.append(self.number)
        return len(self.grants)

    def sequences(self, grant: Grant) -> list[int]:
        """The sequences that this grant has here."""
        for number, known in enumerate(self.grants, 1):
            if known is grant:
                base = self.number << SHIFT
                return [base + offset for offset, slot in enumerate(self.slots) if slot == number]
        return []

    def runs(self) -> list[tuple[Grant, int]]:
        """Each grant that has messages here, with how many."""
        counts = ((grant, self.slots.count(number)) for number, grant in enumerate(self.grants, 1))
        return [(grant, count) for grant, count in counts if count]

    def compact(self) -> None:
        self.slots, self.grants = _compacted(self.slots, self.grants)

    def encode(self) -> bytes:
        self.compact()
        return b"".join([bytes((len(self.grants),)), *[grant.packed for grant in self.grants], self.slots])


def decode(data: bytes, shared: dict[bytes, Grant]) -> tuple[bytearray, list[Grant]]:
    """The slots and grants of a stored page; `shared` makes equal grants of one ledger one object."""
    count = data[0] if data else 0
    size, slots_at = _GRANT.size, 1 + count * _GRANT.size
    if len(data) != slots_at + PAGE_MESSAGES:
        raise Defect(f"A stored page of {len(data)} bytes with {count} grants should have {slots_at + PAGE_MESSAGES}.")
    slots = bytearray(data[slots_at:])
    if max(slots) > count:
        raise Defect(f"A stored page with {count} grants has a message of grant {max(slots)}.")
    grants = []
    for start in range(1, slots_at, size):
        packed = data[start : start + size]
        grant = shared.get(packed)
        if grant is None:
            grant = shared[packed] = unpack_grant(packed)
        grants.append(grant)
    return _compacted(slots, grants)


def _compacted(slots: bytearray, grants: list[Grant]) -> tuple[bytearray, list[Grant]]:
    """Without grants that have no messages here, and equal ones as one (two decisions may give alike)."""
    table = bytearray(256)
    numbers: dict[bytes, int] = {}
    kept: list[Grant] = []
    for number, grant in enumerate(grants, 1):
        if number in slots:
            table[number] = numbers.setdefault(grant.packed, len(kept) + 1)
            if table[number] > len(kept):
                kept.append(grant)
    return (slots, grants) if len(kept) == len(grants) else (slots.translate(table), kept)
