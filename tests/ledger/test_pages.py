"""Pages as stored bytes: what is written is read again, and what cannot have been written is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowlock.errors import Defect
from rowlock.ledger.page import GRANTS_MAX, Grant, Page, decode
from rowlock.limits import PAGE_MESSAGES

numbers = st.integers(0, 2**63 - 1)
grants = st.builds(
    Grant,
    claim=numbers,
    visible_at=numbers,
    receives=st.integers(0, 0xFFFF),
    first_received=numbers,
    held=st.booleans(),
)
spans = st.tuples(st.integers(0, PAGE_MESSAGES - 1), st.integers(1, 40), st.integers(0, 300))
"""(first offset, how many, which grant)"""


def filled(marks: list[tuple[int, int, int]], known: list[Grant]) -> Page:
    page = Page(3)
    for start, count, which in marks:
        page.put(start, min(start + count, PAGE_MESSAGES), known[which % len(known)])
    return page


def meaning(slots: bytearray, known: list[Grant]) -> list[bytes | None]:
    return [known[slot - 1].packed if slot else None for slot in slots]


@given(st.lists(spans, max_size=60), st.lists(grants, min_size=1, max_size=40))
def test_what_is_encoded_is_decoded(marks: list[tuple[int, int, int]], known: list[Grant]) -> None:
    page = filled(marks, known)
    before = meaning(page.slots, page.grants)
    slots, decoded = decode(page.encode(), {})
    assert meaning(slots, decoded) == before
    assert meaning(page.slots, page.grants) == before
    for one in decoded:
        original = next(other for other in known if other.packed == one.packed)
        assert (one.claim, one.visible_at, one.receives) == (original.claim, original.visible_at, original.receives)
        assert (one.first_received, one.held) == (original.first_received, original.held)


@given(st.lists(spans, max_size=60), st.lists(grants, min_size=1, max_size=40))
def test_runs_and_sequences_count_each_message_once(marks: list[tuple[int, int, int]], known: list[Grant]) -> None:
    """Also where two decisions gave equal grants: a page that is read again has them as one."""
    page = filled(marks, known + [Grant(one.claim, one.visible_at, 1, 1, held=True) for one in known])
    page.slots, page.grants = decode(page.encode(), {})
    found = [seq for grant, _ in page.runs() for seq in page.sequences(grant)]
    assert sorted(found) == [3 * PAGE_MESSAGES + offset for offset, slot in enumerate(page.slots) if slot]
    assert sum(count for _, count in page.runs()) == len(found) == page.outstanding


def test_equal_grants_are_one_in_the_stored_page() -> None:
    page = Page(0)
    for offset in range(PAGE_MESSAGES):
        page.put(offset, offset + 1, Grant(0, 0, 0, 0, held=False))
    assert len(page.encode()) == len(_page(1))


def test_equal_grants_of_several_pages_are_one_object() -> None:
    shared: dict[bytes, Grant] = {}
    pages = [Page(0), Page(1)]
    for page in pages:
        page.put(0, 5, Grant(7, 1_000, 1, 500, held=True))
    first, second = (decode(page.encode(), shared)[1] for page in pages)
    assert first[0] is second[0]


def test_a_page_may_have_seen_more_grants_than_it_can_number() -> None:
    """Settling and handing out again makes ever new grants; those without messages are forgotten in time."""
    page = Page(0)
    for turn in range(GRANTS_MAX * 3):
        page.put(turn % PAGE_MESSAGES, turn % PAGE_MESSAGES + 1, Grant(turn + 1, 1_000, 1, 1, held=True))
    claims = [page.grants[slot - 1].claim for slot in page.slots]
    assert sorted(claims) == list(range(GRANTS_MAX * 3 - PAGE_MESSAGES + 1, GRANTS_MAX * 3 + 1))
    assert len(page.grants) <= GRANTS_MAX


def _page(count: int) -> bytes:
    page = Page(0)
    for number in range(count):
        page.put(number, number + 1, Grant(number + 1, 1_000, 1, 1, held=True))
    return page.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        _page(2)[:-1],
        _page(2) + b"\x00",
        b"\x03" + _page(2)[1:],
        b"\x01" + _page(2)[1:],
        _page(2)[:-1] + b"\x03",
        _page(0)[:-1] + b"\x01",
    ],
    ids=["nothing", "no slots", "cut", "too long", "a grant too few", "a grant too many", "no such grant", "no grants"],
)
def test_bytes_that_are_no_page_are_a_defect(data: bytes) -> None:
    with pytest.raises(Defect, match="stored page"):
        decode(data, {})


@given(st.binary(max_size=400))
def test_any_bytes_are_a_page_or_a_defect(data: bytes) -> None:
    try:
        slots, known = decode(data, {})
    except Defect:
        return
    assert len(slots) == PAGE_MESSAGES
    assert max(slots) <= len(known)
