"""A table of page rows in a dict, as strict as a database would be, and brokers that share it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from rowlock.ledger import stored
from rowlock.ledger.ledger import Ledger
from rowlock.ledger.order import Plain
from rowlock.ledger.page import MASK, SHIFT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowlock.ledger.rules import Rules


class Row(NamedTuple):
    page: int
    era: int
    stamp: int
    frontier: int
    at: int
    data: bytes | None


class Table:
    """The rows of one ledger."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], Row] = {}
        self._stamps = count(1)

    @property
    def head(self) -> Row:
        return max(self.rows.values())

    def save(self, ledger: Ledger) -> None:
        """What a cycle does with the decision under way: store it, then count it."""
        image, stamp = stored.image(ledger), next(self._stamps)
        for drop in image.drops:
            assert self.rows.pop((drop.page, drop.era)).stamp == drop.was
        for save in image.saves:
            before = self.rows.get((save.page, save.era))
            assert (before.stamp if before else 0) == save.was
            self.rows[save.page, save.era] = Row(save.page, save.era, stamp, ledger.frontier, ledger.at, save.data)
        stored.committed(ledger, image, stamp)
        self._check(ledger, stamp)

    def _check(self, ledger: Ledger, stamp: int) -> None:
        """The rows and the ledger say the same."""
        pages = [row.page for row in self.rows.values()]
        assert len(pages) == len(set(pages)), f"a page has two rows: {sorted(self.rows)}"
        head = self.head
        assert head.page == ledger.frontier >> SHIFT == ledger.head, "the head is not the frontier's page"
        assert (head.stamp, head.frontier, head.at) == (stamp, ledger.frontier, ledger.at)
        assert stored.stamps(ledger) == (head.stamp, frozenset(row.stamp for row in self.rows.values()))
        for page, row in ((ledger.pages[row.page], row) for row in self.rows.values()):
            assert (page.era, page.stamp) == (row.era, row.stamp)
            assert row == head or page.outstanding, f"page {page.number} is empty and was kept"
        for page in ledger.pages.values():
            assert page.stamp or not page.outstanding, f"page {page.number} was not stored"

    def load(self, ledger: Ledger, keys: Mapping[int, str | None]) -> None:
        """What a broker does under the cursor's lock: read what differs from what it knows."""
        known_head, known = stored.stamps(ledger)
        if known_head == self.head.stamp:
            return
        rows = [row._replace(data=None) if row.stamp in known else row for row in sorted(self.rows.values())]
        came = stored.incoming(ledger, rows)
        stored.install(ledger, came, {seq: keys.get(seq) for seq in came.unknown})


def new_table(rules: Rules, frontier: int) -> Table:
    """A ledger as it is created."""
    table, ledger = Table(), Ledger(rules, frontier)
    ledger.begin(0)
    ledger.touched = True
    table.save(ledger)
    return table


def content(ledger: Ledger) -> dict[int, tuple[int, int, int, int, bool]]:
    """Each outstanding message with its grant: all that pages say."""
    found = {}
    for page in ledger.pages.values():
        for seq in range(page.number << SHIFT, (page.number + 1) << SHIFT):
            if slot := page.slots[seq & MASK]:
                grant = page.grants[slot - 1]
                found[seq] = (grant.claim, grant.visible_at, grant.receives, grant.first_received, grant.held)
    return found


def state(ledger: Ledger) -> dict[str, object]:
    """All that a decision may change and a rollback must restore."""
    return {
        "content": content(ledger),
        "rows": {number: (page.era, page.stamp, page.changes) for number, page in ledger.pages.items() if page.stamp},
        "pages": sorted(ledger.pages),
        "frontier": ledger.frontier,
        "head": ledger.head,
        "at": ledger.at,
        "counts": (ledger.outstanding, ledger.held, ledger.waiting, ledger.open, ledger.lowest),
        "dying": dict(ledger.dying),
        "opened": sorted(ledger.opened(1_000_000)),
        "keys": {} if isinstance(ledger.order, Plain) else dict(ledger.order.key_of),
        "touched": (ledger.touched, dict(ledger.changed)),
    }
