"""How a ledger is saved and loaded: pages as rows, of which the newest one is the head.

A page row is named by (page, era) and fenced by its stamp. It moves to a new era after some changes, so that a session
that holds an old snapshot open piles up a bounded number of versions of one row. The head is the row of the highest
page number, which is always that of the frontier; it is rewritten by every decision that changes the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from rowlock.errors import Defect
from rowlock.ledger.ledger import Ledger
from rowlock.ledger.order import Plain
from rowlock.ledger.page import SHIFT, Grant, Page, decode
from rowlock.limits import ERA_CHANGES


class PageLike(Protocol):
    """A stored page, as a store returns it."""

    @property
    def page(self) -> int: ...
    @property
    def era(self) -> int: ...
    @property
    def stamp(self) -> int: ...
    @property
    def frontier(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def data(self) -> bytes | None: ...


class Save(NamedTuple):
    """A row to write; `was` is the stamp of the row it replaces, 0 when there is none of that (page, era)."""

    page: int
    era: int
    was: int
    data: bytes


class Drop(NamedTuple):
    page: int
    era: int
    was: int


class Image(NamedTuple):
    """What a decision makes of a ledger's rows."""

    saves: list[Save]
    drops: list[Drop]


def image(ledger: Ledger) -> Image:
    """The rows to write and to drop for the decision under way."""
    saves: list[Save] = []
    drops: list[Drop] = []
    head = ledger.frontier >> SHIFT
    for page in _rewritten(ledger, head):
        if page.number == head or page.outstanding:
            rolls = page.stamp != 0 and page.changes >= ERA_CHANGES
            if rolls:
                drops.append(Drop(page.number, page.era, page.stamp))
            saves.append(Save(page.number, page.era + rolls, 0 if rolls else page.stamp, page.encode()))
        elif page.stamp:
            drops.append(Drop(page.number, page.era, page.stamp))
    return Image(saves, drops)


def _rewritten(ledger: Ledger, head: int) -> list[Page]:
    """The pages that changed, the head, and what was the head before."""
    if head not in ledger.pages:
        ledger.pages[head], ledger.changed[head] = Page(head), None
    numbers = {*ledger.changed, head, ledger.head}
    return [ledger.pages[number] for number in sorted(numbers) if number in ledger.pages]


def committed(ledger: Ledger, saved: Image, stamp: int) -> None:
    """The image was stored under that stamp: the decision counts."""
    kept = {save.page for save in saved.saves}
    for drop in saved.drops:
        if drop.page not in kept:
            del ledger.pages[drop.page]
    for save in saved.saves:
        page = ledger.pages[save.page]
        page.changes = page.changes + 1 if page.era == save.era else 1
        page.era, page.stamp = save.era, stamp
    ledger.head = ledger.frontier >> SHIFT
    for number in [number for number in ledger.changed if number in ledger.pages]:
        page = ledger.pages[number]
        if not page.stamp:
            del ledger.pages[number]
    ledger.commit()


class Incoming(NamedTuple):
    """Stored pages that differ from what a ledger knows, decoded."""

    rows: Sequence[PageLike]
    contents: dict[int, tuple[bytearray, list[Grant]]]
    unknown: list[int]
    """Sequences whose keys the ledger needs and does not know."""


def stamps(ledger: Ledger) -> tuple[int, frozenset[int]]:
    """The stamp of the head, and those of all pages: what need not be read again."""
    head = ledger.pages.get(ledger.head)
    return (head.stamp if head else 0), frozenset(page.stamp for page in ledger.pages.values() if page.stamp)


def incoming(ledger: Ledger, rows: Sequence[PageLike]) -> Incoming:
    """Decode all pages of a ledger as they are stored now (without data where the stamp is known)."""
    shared: dict[bytes, Grant] = {}
    contents: dict[int, tuple[bytearray, list[Grant]]] = {}
    unknown: list[int] = []
    for row in rows:
        if row.data is not None:
            contents[row.page] = slots, _ = decode(row.data, shared)
            if not isinstance(ledger.order, Plain):
                base, known = row.page << SHIFT, ledger.order.key_of
                unknown += [base + offset for offset, slot in enumerate(slots) if slot and base + offset not in known]
        elif row.page not in ledger.pages or ledger.pages[row.page].stamp != row.stamp:
            raise Defect(f"Page {row.page} with stamp {row.stamp} is said to be known, and is not.")
    return Incoming(rows, contents, unknown)


def install(ledger: Ledger, came: Incoming, keys: Mapping[int, str | None]) -> None:
    """Make the ledger what is stored."""
    if not isinstance(ledger.order, Plain):
        for seq in came.unknown:
            ledger.order.key_of[seq] = "" if ledger.rules.order == "topic" else keys.get(seq) or ""
    stored = {row.page: row for row in came.rows}
    for number in [number for number in ledger.pages if number not in stored]:
        ledger.replace(number, None)
        del ledger.pages[number]
    head = max(came.rows, key=lambda row: row.page)
    ledger.advance(head.at)
    ledger.frontier, ledger.head = head.frontier, head.page
    for number, row in stored.items():
        if number in came.contents:
            ledger.replace(number, came.contents[number])
            page = ledger.pages[number]
            page.changes = 0 if page.era != row.era else page.changes + 1
            page.era, page.stamp = row.era, row.stamp
    ledger.commit()
