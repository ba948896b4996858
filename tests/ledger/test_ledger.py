"""The ledger's rules, one example each."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from tests.ledger.naive import Entry
from tests.ledger.rows import content, new_table, state

from rowlock.errors import Defect
from rowlock.ledger import stored
from rowlock.ledger.ledger import EXPIRED, GIVEN_UP, Ledger
from rowlock.ledger.rules import Dying, Rules, Run, Verdict
from rowlock.limits import ERA_CHANGES, FAIR_FREE_MESSAGES, PAGE_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.ledger.rows import Table

HOLD = 30
KEYED = Rules(order="key")
FAIR = Rules(fair=True)


class Shelf:
    """A ledger with a log and a table, each of whose works is a transaction of its own."""

    def __init__(self, rules: Rules | None = None):
        self.log: dict[int, Entry] = {}
        self.now = 1_000
        self.table: Table = new_table(rules or Rules(), 1)
        self.ledger = self.fresh(rules or Rules())
        self.claims = count(1)

    def fresh(self, rules: Rules | None = None) -> Ledger:
        """The ledger of a broker that just started."""
        ledger = Ledger(rules or self.ledger.rules)
        self.table.load(ledger, {seq: message.key for seq, message in self.log.items()})
        return ledger

    def publish(self, *messages: Entry) -> None:
        self.log |= dict(enumerate(messages, len(self.log) + 1))

    def keys(self, names: str) -> None:
        """Publish a message for each letter, which is its key."""
        self.publish(*map(Entry, names))

    def claim(self, limit: int = 10, hold: int = HOLD) -> list[int]:
        """The sequences that the next claim hands out; its claim number counts from 1."""
        return [seq for run in self.runs(limit, hold) for seq in range(run.start, run.stop)]

    def runs(self, limit: int = 10, hold: int = HOLD) -> list[Run]:
        self.ledger.begin(self.now)
        runs = self.ledger.claim(self.log, len(self.log), limit, self.ledger.at + hold, next(self.claims))
        self.save()
        return runs

    def settle(self, seqs: Iterable[int], claim: int) -> list[Verdict]:
        self.ledger.begin(self.now)
        verdicts = [self.ledger.settle(seq, claim) for seq in seqs]
        self.save()
        return verdicts

    def extend(self, seq: int, claim: int, hold: int = HOLD) -> Verdict:
        self.ledger.begin(self.now)
        verdict = self.ledger.extend(seq, claim, self.ledger.at + hold)
        self.save()
        return verdict

    def release(self, seq: int, claim: int, delay: int = 0) -> Verdict:
        self.ledger.begin(self.now)
        verdict = self.ledger.release(seq, claim, self.ledger.at + delay)
        self.save()
        return verdict

    def give_back(self, seq: int, claim: int) -> Verdict:
        self.ledger.begin(self.now)
        verdict = self.ledger.give_back(seq, claim)
        self.save()
        return verdict

    def doomed(self) -> list[Dying]:
        self.ledger.begin(self.now)
        doomed = self.ledger.doomed(100)
        for one in doomed:
            self.ledger.drop(one.seq)
        self.save()
        return doomed

    def save(self) -> None:
        if self.ledger.touched:
            self.table.save(self.ledger)
        else:
            self.ledger.commit()


# Claim and settle


def test_new_messages_come_in_sequence_and_once() -> None:
    shelf = Shelf()
    shelf.keys("abc")
    assert shelf.runs(2) == [Run(1, 3, 1, 1_000)]
    assert shelf.runs(2) == [Run(3, 4, 1, 1_000)]
    assert shelf.runs(2) == []
    assert (shelf.ledger.frontier, shelf.ledger.outstanding, shelf.ledger.held) == (4, 3, 3)


def test_what_is_settled_is_done() -> None:
    shelf = Shelf()
    shelf.keys("abc")
    shelf.claim()
    assert shelf.settle([1, 3], 1) == [Verdict.DONE, Verdict.DONE]
    assert shelf.settle([1], 1) == [Verdict.GONE]
    shelf.now += HOLD
    assert shelf.claim() == [2]
    assert shelf.ledger.lowest == 2


def test_a_hold_that_ran_out_makes_way_for_the_next_claim_before_new_messages() -> None:
    shelf = Shelf()
    shelf.keys("abcd")
    shelf.claim(2)
    shelf.now += HOLD - 1
    assert shelf.claim(1) == [3]
    shelf.now += 1
    assert shelf.runs(3) == [Run(1, 3, 2, 1_000), Run(4, 5, 1, 1_030)]


def test_a_late_settle_counts_while_nobody_else_holds_the_message() -> None:
    shelf = Shelf()
    shelf.keys("ab")
    shelf.claim()
    shelf.now += HOLD
    assert shelf.settle([1], 1) == [Verdict.DONE]
    assert shelf.claim() == [2]
    assert shelf.settle([2], 1) == [Verdict.STALE]
    assert shelf.settle([2], 2) == [Verdict.DONE]


def test_in_order_a_late_settle_does_not_count() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("a")
    shelf.claim()
    shelf.now += HOLD
    assert shelf.settle([1], 1) == [Verdict.STALE]
    assert shelf.claim() == [1]


def test_a_claim_number_of_nobody_fits_nothing() -> None:
    shelf = Shelf()
    shelf.publish(Entry(due_at=2_000), Entry())
    shelf.claim()
    assert shelf.settle([1], 0) == [Verdict.STALE]
    assert shelf.settle([2], 9) == [Verdict.STALE]
    assert shelf.settle([3], 1) == [Verdict.STALE]
    assert shelf.extend(2, 9) is Verdict.STALE
    assert shelf.release(2, 9) is Verdict.STALE


def test_no_hold_at_all_lets_the_next_claim_have_the_message() -> None:
    shelf = Shelf()
    shelf.keys("a")
    assert shelf.claim(hold=0) == [1]
    assert shelf.claim(hold=0) == [1]
    assert shelf.settle([1], 2) == [Verdict.DONE]


def test_a_claim_looks_past_what_was_settled_late_or_has_expired() -> None:
    shelf = Shelf()
    shelf.publish(Entry(), Entry(expires_at=1_020), Entry())
    shelf.claim()
    shelf.now += HOLD
    shelf.settle([1], 1)
    assert shelf.claim(1) == [3]
    assert shelf.ledger.outstanding == 1


def test_a_claim_goes_no_further_than_the_log_is_known() -> None:
    shelf = Shelf()
    shelf.keys("abcd")
    ledger = shelf.ledger
    ledger.begin(1_000)
    known = {seq: message for seq, message in shelf.log.items() if seq != 3}
    assert ledger.claim(known, 4, 10, 1_030, 7) == [Run(1, 3, 1, 1_000)]
    assert ledger.frontier == 3


@pytest.mark.parametrize("rules", [Rules(), KEYED, FAIR], ids=["none", "key", "fair"])
def test_what_the_log_did_not_know_comes_once_it_does(rules: Rules) -> None:
    shelf = Shelf(rules)
    shelf.keys("ab")
    shelf.claim(hold=0)
    shelf.ledger.begin(shelf.now)
    assert shelf.ledger.claim({2: Entry("b")}, 2, 10, 2_000, 9) == [Run(2, 3, 2, 1_000)]
    assert shelf.ledger.claim({}, 2, 10, 2_000, 9) == []
    shelf.save()
    assert shelf.claim() == [1]


def test_what_to_read_beforehand_is_what_comes_next() -> None:
    for rules in (Rules(), KEYED, FAIR):
        shelf = Shelf(rules)
        shelf.keys("aabbcc")
        shelf.claim()
        shelf.settle([1, 2], 1)
        shelf.now += HOLD
        assert shelf.ledger.opened(3) == []
        shelf.ledger.advance(shelf.now)
        assert shelf.ledger.opened(3) == [3, 4, 5]
        assert shelf.ledger.opened(100) == shelf.claim(100)


def test_at_most_once_is_done_when_it_is_handed_out() -> None:
    shelf = Shelf(Rules(at_most_once=True))
    shelf.keys("ab")
    assert shelf.claim(1) == [1]
    assert shelf.settle([1], 1) == [Verdict.GONE]
    assert (shelf.ledger.outstanding, shelf.ledger.lowest) == (0, 2)
    shelf.now += HOLD
    assert shelf.claim() == [2]


def test_time_never_runs_backward() -> None:
    shelf = Shelf()
    shelf.keys("a")
    shelf.now = 5_000
    shelf.claim()
    other = shelf.fresh()
    other.begin(1_000)
    assert other.at == 5_000
    assert other.claim(shelf.log, 1, 1, 5_030, 7) == []


# Extend, release, give back


def test_an_extended_hold_lasts_longer() -> None:
    shelf = Shelf()
    shelf.keys("a")
    shelf.claim()
    shelf.now += HOLD - 1
    assert shelf.extend(1, 1) is Verdict.DONE
    shelf.now += HOLD - 1
    assert shelf.claim() == []
    shelf.now += 1
    assert shelf.extend(1, 1) is Verdict.STALE
    assert shelf.runs() == [Run(1, 2, 2, 1_000)]


def test_a_release_waits_for_its_delay() -> None:
    shelf = Shelf()
    shelf.keys("a")
    shelf.claim()
    assert shelf.release(1, 1, delay=5) is Verdict.DONE
    assert (shelf.ledger.held, shelf.ledger.waiting, shelf.ledger.next_time()) == (0, 1, 1_005)
    assert shelf.release(1, 1) is Verdict.STALE
    assert shelf.claim() == []
    shelf.now += 5
    assert shelf.runs() == [Run(1, 2, 2, 1_000)]


def test_what_is_given_back_was_never_received() -> None:
    shelf = Shelf(Rules(max_receives=1))
    shelf.keys("a")
    shelf.claim()
    assert shelf.give_back(1, 1) is Verdict.DONE
    assert shelf.settle([1], 1) == [Verdict.STALE]
    shelf.now += 5
    assert shelf.runs() == [Run(1, 2, 1, 1_005)]


def test_what_was_received_too_often_is_saved_by_giving_it_back() -> None:
    shelf = Shelf(Rules(max_receives=1))
    shelf.keys("a")
    shelf.claim()
    shelf.now += HOLD
    shelf.ledger.advance(shelf.now)
    assert shelf.ledger.dying == {1: GIVEN_UP}
    assert shelf.give_back(1, 1) is Verdict.DONE
    assert shelf.ledger.dying == {}
    assert shelf.claim() == [1]


# Expiry, due times, dead-lettering


def test_expired_messages_are_passed_over() -> None:
    shelf = Shelf()
    shelf.publish(Entry(expires_at=1_010), Entry(expires_at=1_000), Entry())
    assert shelf.claim(1) == [1]
    shelf.now += HOLD
    assert shelf.claim() == [3]
    assert (shelf.ledger.outstanding, shelf.ledger.dying) == (1, {})


def test_expired_messages_are_dead_lettered_where_that_is_asked_for() -> None:
    shelf = Shelf(Rules(bury_expired=True))
    shelf.publish(Entry(expires_at=1_010), Entry(expires_at=1_000), Entry())
    assert shelf.claim(1) == [1]
    shelf.now += HOLD
    assert shelf.claim() == [3]
    assert shelf.doomed() == [Dying(1, EXPIRED, 1), Dying(2, EXPIRED, 0)]
    assert shelf.ledger.outstanding == 1


def test_what_has_expired_for_one_broker_may_be_held_through_another() -> None:
    """Whose clock was behind when it handed the message out."""
    shelf = Shelf(Rules(bury_expired=True))
    shelf.publish(Entry(expires_at=1_015))
    shelf.claim(hold=0)
    mine, shelf.ledger = shelf.ledger, shelf.fresh()
    mine.begin(1_020)
    assert mine.claim(shelf.log, 1, 1, 1_050, 9) == []
    assert mine.dying == {1: EXPIRED}
    mine.commit()
    shelf.now = 1_010
    assert shelf.claim() == [1]
    shelf.table.load(mine, {})
    assert (mine.dying, mine.held) == ({}, 1)


def test_what_has_expired_is_still_known_when_its_burial_was_not_stored() -> None:
    shelf = Shelf(Rules(bury_expired=True))
    shelf.publish(Entry(expires_at=1_000), Entry())
    shelf.claim()
    shelf.ledger.begin(shelf.now)
    shelf.ledger.drop(1)
    shelf.ledger.rollback()
    assert shelf.doomed() == [Dying(1, EXPIRED, 0)]


def test_a_ledger_that_nobody_claims_from_ends_what_has_expired() -> None:
    shelf = Shelf()
    shelf.publish(*[Entry(expires_at=1_010)] * 3, Entry())
    shelf.claim(1, hold=0)
    shelf.ledger.begin(1_010)
    shelf.ledger.expire(shelf.log, 4, 2)
    shelf.save()
    assert (shelf.ledger.outstanding, shelf.ledger.frontier) == (0, 4)


def test_a_message_waits_until_it_is_due() -> None:
    shelf = Shelf()
    shelf.publish(Entry(due_at=1_050), Entry())
    assert shelf.claim() == [2]
    assert (shelf.ledger.waiting, shelf.ledger.next_time()) == (1, 1_030)
    shelf.settle([2], 1)
    shelf.now = 1_050
    assert shelf.runs() == [Run(1, 2, 1, 1_050)]


def test_a_message_that_is_due_need_not_wait() -> None:
    shelf = Shelf()
    shelf.publish(Entry(due_at=1_000), Entry(due_at=1_001))
    assert shelf.claim() == [1]


def test_what_was_received_often_enough_dies() -> None:
    shelf = Shelf(Rules(max_receives=2))
    shelf.keys("ab")
    shelf.claim()
    shelf.settle([2], 1)
    shelf.release(1, 1)
    assert shelf.claim() == [1]
    assert shelf.doomed() == []
    shelf.now += HOLD
    assert shelf.claim() == []
    assert shelf.fresh().rules.max_receives == 2
    assert shelf.doomed() == [Dying(1, GIVEN_UP, 2)]
    assert shelf.ledger.outstanding == 0


def test_the_dying_come_in_sequence_and_in_steps() -> None:
    shelf = Shelf(Rules(max_receives=1))
    shelf.keys("a" * 300)
    shelf.claim(150)
    shelf.claim(150, hold=0)
    shelf.now += HOLD
    shelf.ledger.advance(shelf.now)
    assert next(iter(shelf.ledger.dying)) == 151
    assert [one.seq for one in shelf.ledger.doomed(3)] == [1, 2, 3]
    assert len(shelf.doomed()) == 100


def test_a_late_settle_saves_a_dying_message() -> None:
    shelf = Shelf(Rules(max_receives=1))
    shelf.keys("a")
    shelf.claim()
    shelf.now += HOLD
    assert shelf.settle([1], 1) == [Verdict.DONE]
    assert shelf.doomed() == []


# Order


def test_a_key_that_is_held_waits_and_others_go_on() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("aab")
    assert shelf.claim(1) == [1]
    assert shelf.claim() == [3]
    shelf.settle([1], 1)
    assert shelf.claim() == [2]


def test_one_answer_may_have_several_messages_of_a_key() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("abaa")
    assert shelf.claim(3) == [1, 2, 3]
    assert shelf.claim() == []


def test_nobody_gets_the_first_of_a_key_while_the_second_is_held() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("aa")
    assert shelf.claim() == [1, 2]
    shelf.release(1, 1)
    assert shelf.claim() == []
    shelf.settle([2], 1)
    assert shelf.claim() == [1]


def test_a_key_waits_for_a_retry_of_any_of_its_messages() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("aab")
    shelf.claim(1)
    shelf.release(1, 1, delay=5)
    assert shelf.claim() == [3]
    shelf.ledger = shelf.fresh()
    assert shelf.claim() == []
    shelf.now += 5
    assert shelf.claim() == [1, 2]


def test_a_key_waits_for_a_retry_of_a_later_message_too() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("aa")
    shelf.claim()
    shelf.release(2, 1, delay=50)
    shelf.now += HOLD
    for ledger in (shelf.ledger, shelf.fresh()):
        shelf.ledger = ledger
        assert shelf.claim() == []
    shelf.now = 1_050
    assert shelf.claim() == [1, 2]


def test_a_message_that_is_not_due_keeps_back_the_later_ones_of_its_key() -> None:
    shelf = Shelf(KEYED)
    shelf.publish(Entry("a"), Entry("a", due_at=1_050), Entry("a"), Entry("b"))
    assert shelf.claim() == [1, 4]
    shelf.settle([1, 4], 1)
    assert shelf.claim() == []
    shelf.now = 1_050
    assert shelf.claim() == [2, 3]


def test_a_message_that_is_not_due_does_not_keep_back_an_earlier_one() -> None:
    """Else a retry would wait for as long as somebody delayed a later message, up to a year."""
    shelf = Shelf(KEYED)
    shelf.publish(Entry("a"), Entry("a", due_at=9_000))
    assert shelf.claim() == [1]
    shelf.now += HOLD
    assert shelf.claim() == [1]


def test_a_dying_message_does_not_block_its_key() -> None:
    shelf = Shelf(Rules(order="key", max_receives=1))
    shelf.keys("aa")
    shelf.claim(1)
    shelf.now += HOLD
    assert shelf.claim() == [2]


def test_a_dying_message_is_still_known_after_other_brokers_wrote_its_page() -> None:
    shelf = Shelf(Rules(order="key", max_receives=1))
    shelf.keys("abc")
    shelf.claim(2)
    shelf.now += HOLD
    shelf.ledger.advance(shelf.now)
    mine, shelf.ledger = shelf.ledger, shelf.fresh()
    for _ in range(2):
        shelf.claim(1)
        shelf.table.load(mine, {})
    mine.begin(shelf.now)
    assert [one.seq for one in mine.doomed(10)] == [1, 2]
    assert mine.drop(1)
    mine.rollback()
    assert [one.seq for one in mine.doomed(10)] == [1, 2]


def test_expired_messages_do_not_end_what_a_key_gets() -> None:
    shelf = Shelf(KEYED)
    shelf.publish(Entry("a"), Entry("a", expires_at=1_020), Entry("a"))
    shelf.claim()
    shelf.now += HOLD
    assert shelf.claim(2) == [1, 3]


def test_the_order_of_a_topic_is_one_key_and_looks_no_further() -> None:
    shelf = Shelf(Rules(order="topic"))
    shelf.publish(Entry("a"), Entry("b"), Entry(None), *[Entry("c")] * 1_000)
    assert shelf.claim(3) == [1, 2, 3]
    assert shelf.claim() == []
    assert (shelf.ledger.frontier, len(shelf.table.rows)) == (4, 1)
    shelf.settle([1, 2, 3], 1)
    assert shelf.claim(2) == [4, 5]


def test_the_look_ahead_fills_with_one_key_and_then_the_queue_waits() -> None:
    shelf = Shelf(Rules(order="key", look_ahead=20))
    shelf.keys("a" * 40 + "b")
    assert shelf.claim(10) == list(range(1, 11))
    assert shelf.claim(10) == []
    assert (shelf.ledger.frontier, shelf.ledger.open) == (31, 20)
    shelf.settle(range(1, 11), 1)
    assert shelf.claim(25) == [*range(11, 36)]
    assert shelf.claim() == [41]


def test_what_a_claim_takes_does_not_count_as_looked_ahead() -> None:
    shelf = Shelf(Rules(order="key", look_ahead=2))
    shelf.keys("abcdefgh")
    assert shelf.claim(8) == list(range(1, 9))


# Fair


def test_a_key_with_far_more_in_flight_than_the_others_is_set_back() -> None:
    shelf = Shelf(FAIR)
    shelf.keys("a" * 30 + "b" * 3)
    assert shelf.claim(FAIR_FREE_MESSAGES + 1) == list(range(1, 12))
    assert shelf.claim(2) == [31, 32]
    assert (shelf.ledger.open, shelf.ledger.opened(2)) == (19, [12, 13])
    assert shelf.claim(4) == [33, 12, 13, 14]


def test_a_few_in_flight_are_never_too_many() -> None:
    shelf = Shelf(FAIR)
    shelf.keys("a" * (FAIR_FREE_MESSAGES + 1) + "b" + "a")
    assert shelf.claim(FAIR_FREE_MESSAGES) == list(range(1, FAIR_FREE_MESSAGES + 1))
    assert shelf.claim(1) == [FAIR_FREE_MESSAGES + 1]
    assert shelf.claim(1) == [FAIR_FREE_MESSAGES + 2]


def test_twice_the_others_mean_is_far_more_and_less_is_not() -> None:
    for of_others, comes_next in ((6, 18), (5, 17)):
        shelf = Shelf(FAIR)
        shelf.keys("b" * of_others + "a" * 12 + "b")
        assert len(shelf.claim(of_others + 11)) == of_others + 11
        assert shelf.claim(1) == [comes_next + (of_others == 5)]


def test_a_key_that_was_set_back_comes_again_once_it_has_less_in_flight() -> None:
    shelf = Shelf(FAIR)
    shelf.keys("a" * 20 + "bbbb")
    shelf.claim(11)
    assert shelf.claim(1) == [21]
    shelf.settle(range(1, 12), 1)
    assert shelf.claim(2) == [12, 13]


# Seek and retention


def test_a_seek_back_hands_everything_out_again_and_voids_all_receipts() -> None:
    shelf = Shelf()
    shelf.keys("a" * 200)
    shelf.claim(150)
    shelf.settle(range(1, 100), 1)
    shelf.ledger.begin(shelf.now)
    shelf.ledger.seek(50)
    shelf.save()
    assert (shelf.ledger.outstanding, shelf.ledger.held, len(shelf.table.rows)) == (0, 0, 1)
    assert shelf.settle([120], 1) == [Verdict.STALE]
    assert shelf.claim(2) == [50, 51]
    assert shelf.settle([50], 1) == [Verdict.STALE]


def test_retention_ends_what_lies_below() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("ab" * 100)
    shelf.claim(140)
    shelf.ledger.begin(shelf.now)
    shelf.ledger.trim(131)
    shelf.save()
    assert (shelf.ledger.outstanding, shelf.ledger.lowest) == (10, 131)
    shelf.ledger.begin(shelf.now)
    shelf.ledger.trim(180)
    shelf.save()
    assert (shelf.ledger.outstanding, shelf.ledger.frontier) == (0, 180)
    assert shelf.claim(2) == [180, 181]


# Rollback and rows


def test_what_was_not_stored_did_not_happen() -> None:
    for rules in (Rules(), KEYED, FAIR):
        shelf = Shelf(rules)
        shelf.keys("abc" * 100)
        shelf.claim(140)
        shelf.now += HOLD
        shelf.claim(50)
        ledger = shelf.ledger
        ledger.begin(shelf.now)
        before = state(ledger)
        ledger.claim(shelf.log, 300, 200, 2_000, 9)
        ledger.settle(1, 2)
        ledger.release(2, 2, 3_000)
        ledger.trim(7)
        ledger.seek(3)
        ledger.rollback()
        assert state(ledger) == before


def test_a_page_row_moves_to_a_new_era_after_some_changes() -> None:
    shelf = Shelf()
    shelf.keys("a" * (ERA_CHANGES + 1))
    for _ in range(ERA_CHANGES - 1):
        shelf.claim(1)
    assert list(shelf.table.rows) == [(0, 0)]
    shelf.claim(1)
    assert list(shelf.table.rows) == [(0, 1)]
    assert shelf.ledger.pages[0].changes == 1


def test_the_head_follows_the_frontier_and_empty_pages_go() -> None:
    shelf = Shelf()
    shelf.keys("a" * 3 * PAGE_MESSAGES)
    shelf.claim(2 * PAGE_MESSAGES)
    assert sorted(page for page, _ in shelf.table.rows) == [0, 1, 2]
    shelf.settle(range(2 * PAGE_MESSAGES + 1), 1)
    assert [(row.page, row.frontier) for row in shelf.table.rows.values()] == [(2, 2 * PAGE_MESSAGES + 1)]


def test_a_page_that_came_and_went_within_one_decision_is_never_a_row() -> None:
    shelf = Shelf()
    shelf.keys("a" * 3 * PAGE_MESSAGES)
    shelf.ledger.begin(shelf.now)
    shelf.ledger.claim(shelf.log, 3 * PAGE_MESSAGES, 300, 2_000, 7)
    shelf.ledger.trim(2 * PAGE_MESSAGES)
    shelf.save()
    assert [page for page, _ in shelf.table.rows] == [2]
    assert list(shelf.ledger.pages) == [2]


def test_a_page_that_is_said_to_be_known_and_is_not_is_a_defect() -> None:
    shelf = Shelf()
    rows = [row._replace(data=None) for row in shelf.table.rows.values()]
    with pytest.raises(Defect, match="said to be known"):
        stored.incoming(Ledger(Rules()), rows)


def test_what_another_broker_settled_does_not_come_back() -> None:
    """A caches a page; B settles all of it, and the row is deleted; time passes; A claims."""
    shelf = Shelf()
    shelf.keys("a" * 130)
    shelf.claim(130)
    mine, shelf.ledger = shelf.ledger, shelf.fresh()
    shelf.settle(range(1, 131), 1)
    shelf.table.load(mine, {})
    mine.begin(shelf.now + HOLD)
    assert mine.claim(shelf.log, 130, 10, 2_000, 9) == []


def test_equal_grants_of_two_decisions_are_all_found_after_a_restart() -> None:
    shelf = Shelf()
    shelf.keys("ab")
    shelf.claim()
    shelf.give_back(1, 1)
    shelf.give_back(2, 1)
    shelf.ledger = shelf.fresh()
    assert shelf.claim() == [1, 2]


def test_more_than_255_grants_in_one_page_over_time() -> None:
    shelf = Shelf()
    shelf.keys("a" * PAGE_MESSAGES)
    shelf.claim(PAGE_MESSAGES)
    shelf.ledger.begin(shelf.now)
    for turn in range(3):
        for seq in range(1, PAGE_MESSAGES):
            assert shelf.ledger.extend(seq, 1, 2_000 + turn * 1_000 + seq) is Verdict.DONE
    shelf.save()
    expected = {seq: (1, 4_000 + seq, 1, 1_000, True) for seq in range(1, PAGE_MESSAGES)}
    assert content(shelf.fresh()) == content(shelf.ledger) == {**expected, PAGE_MESSAGES: (1, 1_030, 1, 1_000, True)}
    shelf.ledger.advance(4_100)
    assert shelf.ledger.opened(1_000) == [*range(1, 101), PAGE_MESSAGES]


def test_120_000_in_flight_settled_in_random_order_leave_nothing() -> None:
    shelf = Shelf()
    number = 120_000
    shelf.publish(*[Entry()] * number)
    for _ in range(number // 1_000):
        shelf.claim(1_000)
    assert (shelf.ledger.held, len(shelf.table.rows)) == (number, number // PAGE_MESSAGES + 1)
    seqs = list(range(1, number + 1))
    random.Random(7).shuffle(seqs)
    for done in range(0, number, 10_000):
        shelf.ledger.begin(shelf.now)
        settled = [shelf.ledger.settle(seq, (seq - 1) // 1_000 + 1) for seq in seqs[done : done + 10_000]]
        assert Counter(settled) == {Verdict.DONE: 10_000}
        shelf.save()
        left = set(seqs[done + 10_000 :])
        assert (shelf.ledger.outstanding, shelf.ledger.lowest) == (len(left), min(left, default=number + 1))
    assert [row.page for row in shelf.table.rows.values()] == [(number + 1) // PAGE_MESSAGES]


# Cost: nothing may grow with time, or with the square of what waits


def test_extending_for_hours_keeps_a_bounded_number_of_timers() -> None:
    ledger = Ledger(Rules())
    ledger.begin(1_000)
    ledger.claim({1: Entry()}, 1, 1, 50_000_000, 7)
    ledger.commit()
    for turn in range(20_000):
        ledger.begin(1_000 + turn)
        ledger.extend(1, 7, 50_000_000 + turn)
        ledger.commit()
    assert len(ledger._timers) < 3_000
    assert not ledger._grants
    assert ledger.held == 1
    assert ledger.next_time() is not None
    ledger.advance(50_019_999)
    assert (ledger.held, ledger.opened(1)) == (0, [1])


@pytest.mark.parametrize("rules", [Rules(), KEYED, FAIR], ids=["none", "key", "fair"])
def test_a_broker_that_only_settles_what_others_claim_does_not_grow(rules: Rules) -> None:
    shelf = Shelf(rules)
    shelf.keys("ab" * 3_000)
    mine, other = shelf.ledger, shelf.fresh()
    keys = {seq: message.key for seq, message in shelf.log.items()}
    for _ in range(1_000):
        shelf.ledger = other
        shelf.table.load(other, keys)
        seqs = shelf.claim(4, hold=0)
        shelf.ledger = mine
        shelf.table.load(mine, keys)
        for seq in seqs[:3]:
            mine.begin(shelf.now)
            mine.drop(seq)
            shelf.save()
    assert mine.outstanding < 5
    assert _index_entries(mine) < 500
    mine.begin(shelf.now)
    left = sorted(content(mine))
    handed = [seq for _ in left for run in mine.claim(shelf.log, 0, 1, 9_000, 9) for seq in range(run.start, run.stop)]
    firsts: dict[str | None, int] = {}
    for seq in left:
        firsts.setdefault(shelf.log[seq].key, seq)
    assert handed == (left if rules.order == "none" else list(firsts.values()))


def test_a_key_whose_messages_wait_while_another_broker_extends_does_not_grow() -> None:
    shelf = Shelf(KEYED)
    shelf.keys("a" * 200 + "b")
    assert shelf.claim(1, hold=900) == [1]
    assert shelf.claim(1) == [201]
    mine, shelf.ledger = shelf.ledger, shelf.fresh()
    for turn in range(500):
        shelf.extend(201, 2, 100 + turn)
        shelf.table.load(mine, {})
    assert _index_entries(mine) < 700
    mine.begin(2_000)
    assert mine.opened(1_000) == list(range(1, 202))


def test_keys_that_come_and_go_do_not_make_turns_pile_up() -> None:
    """And those that wait their turn keep it."""
    shelf = Shelf(KEYED)
    shelf.publish(*[Entry(str(number)) for number in range(2_000)])
    ledger = shelf.ledger
    ledger.begin(shelf.now)
    ledger.claim(shelf.log, 2_000, 2_000, shelf.now, 7)
    for seq in range(1, 2_001):
        if seq % 40:
            ledger.drop(seq)
    shelf.save()
    for seq in range(40, 2_001, 80):
        ledger.begin(shelf.now)
        ledger.give_back(seq, 7)
        shelf.save()
    ledger.begin(shelf.now)
    for claim in range(8, 200):
        ledger.claim(shelf.log, 2_000, 1, shelf.now, claim)
        ledger.claim(shelf.log, 2_000, 100, shelf.now, claim)
    shelf.save()
    assert _index_entries(ledger) < 500
    assert shelf.claim(100) == list(range(40, 2_001, 40))


def _index_entries(ledger: Ledger) -> int:
    """How many entries the order's heaps have."""
    order = ledger.order
    if hasattr(order, "_heap"):
        return len(order._heap)
    return len(order._turns) + sum(len(key.heap) for key in order._keys.values())


def _seconds(shelf: Shelf, seqs: Iterable[int], *, settled: bool) -> float:
    """How long it takes to claim these one by one."""
    ledger, log, last = shelf.ledger, shelf.log, len(shelf.log)
    start = perf_counter()
    for seq in seqs:
        ledger.begin(shelf.now)
        assert ledger.opened(1) == [seq]
        assert ledger.claim(log, last, 1, shelf.now + HOLD, 7) == [Run(seq, seq + 1, 1, shelf.now)]
        if settled:
            assert ledger.settle(seq, 7) is Verdict.DONE
        ledger.commit()
    return perf_counter() - start


def test_a_key_with_20_000_skipped_messages_costs_no_more_than_one_with_few() -> None:
    """A claim that sorted or scanned what waits would take some milliseconds more each time."""
    shelf = Shelf(KEYED)
    shelf.keys("a" * 20_001)
    shelf.claim(1)
    assert shelf.claim(1) == []
    assert shelf.ledger.open == 20_000
    shelf.settle([1], 1)
    assert _seconds(shelf, range(2, 1_002), settled=True) < 0.7


def test_20_000_messages_set_back_cost_no_more_than_a_few() -> None:
    shelf = Shelf(FAIR)
    shelf.keys("a" * 20_000 + "b")
    shelf.claim(11)
    assert shelf.claim(1) == [20_001]
    assert shelf.ledger.open == 20_000 - 11
    assert _seconds(shelf, range(12, 1_012), settled=False) < 0.7


def test_5_000_holds_that_end_at_times_of_their_own_end_one_by_one() -> None:
    """And an install of a page does not look at all that is dying."""
    shelf = Shelf(Rules(max_receives=1))
    shelf.publish(*[Entry()] * 5_000)
    for _ in range(5):
        shelf.claim(1_000)
    ledger, start = shelf.ledger, perf_counter()
    ledger.begin(1_000)
    for seq in range(1, 5_001):
        ledger.extend(seq, (seq - 1) // 1_000 + 1, 10_000 + seq)
    shelf.save()
    for seq in range(1, 5_001):
        ledger.begin(10_000 + seq)
        assert len(ledger.dying) == seq
        ledger.commit()
    fresh = shelf.fresh()
    fresh.advance(20_000)
    assert len(fresh.dying) == 5_000
    assert perf_counter() - start < 3
