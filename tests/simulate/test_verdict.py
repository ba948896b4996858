"""The judges: what they accuse, and what they must not accuse, in histories told by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.simulate.story import TIMEOUT, Story

from rowlock.simulate import records
from rowlock.simulate.history import History
from rowlock.simulate.report import missing, outcome
from rowlock.simulate.streams import streams
from rowlock.simulate.verdict import judge


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_good_history(story: Story) -> None:
    story.publish("one")
    story.act(story.claim("one", at=1), 2)
    assert story.violations() == {}


# 1


def test_an_acknowledged_message_that_is_never_seen_is_lost(story: Story) -> None:
    story.publish("one")
    assert list(story.violations()) == [1]


def test_one_that_was_handed_out_and_never_settled_is_lost(story: Story) -> None:
    story.publish("one")
    story.act(story.claim("one", at=1), TIMEOUT * 2, outcome=records.STALE)
    assert list(story.violations()) == [1]


@pytest.mark.parametrize("told", [records.UNKNOWN, records.REFUSED, None])
def test_one_that_was_never_acknowledged_may_be_missing(story: Story, told: str | None) -> None:
    story.publish("one", outcome=told)
    assert story.violations() == {}


@pytest.mark.parametrize("told", [records.UNKNOWN, None])
def test_a_settle_without_an_answer_may_have_happened(story: Story, told: str | None) -> None:
    story.publish("one")
    story.act(story.claim("one", at=1), 2, outcome=told)
    assert story.violations() == {}


def test_what_expired_is_not_lost(story: Story) -> None:
    story.publish("one", topic="offers", expires_in=1)
    assert story.violations() == {}


def test_a_dead_letter_that_is_never_seen_is_lost(story: Story) -> None:
    story.publish("one", topic="jobs")
    for receives in (1, 2, 3):
        story.claim("one", at=receives * 100, subscription="jobs", receives=receives)
    assert list(story.violations()) == [1]


def test_a_dead_letter_that_is_settled_is_not(story: Story) -> None:
    story.publish("one", topic="jobs")
    story.claim("one", at=1, subscription="jobs")
    story.act(story.claim("one", at=50, subscription="jobs-dead"), 51)
    assert story.violations() == {}


def test_what_nobody_published(story: Story) -> None:
    story.act(story.claim("ghost", at=1), 2)
    assert list(story.violations()) == [1]


def test_another_body_or_key_than_was_published(story: Story) -> None:
    story.publish("one")
    story.publish("two")
    story.act(story.claim("one", at=1, intact=False), 2)
    story.act(story.claim("two", at=1, key="strange"), 2)
    assert [len(sentences) for sentences in story.violations().values()] == [2]


def test_one_message_stored_twice(story: Story) -> None:
    story.publish("one", id_="first")
    story.publish("one", id_="second")
    story.act(story.claim("one", at=1), 2)
    assert list(story.violations()) == [1]


# 2 and 3


def test_a_count_of_receives_that_starts_again(story: Story) -> None:
    story.publish("one")
    story.claim("one", at=1, receives=2)
    story.act(story.claim("one", at=100, receives=1), 101)
    assert 2 in story.violations()


def test_a_message_that_comes_back_from_the_dead_letters(story: Story) -> None:
    story.publish("one", topic="jobs")
    story.act(story.claim("one", at=1, subscription="jobs-dead"), 2)
    story.claim("one", at=50, subscription="jobs")
    assert list(story.violations()) == [2]


@pytest.mark.parametrize(("at", "accused"), [(5, [3]), (TIMEOUT + 1.1, [])])
def test_two_holders(story: Story, at: float, accused: list[int]) -> None:
    story.publish("one")
    story.claim("one", at=1)
    story.act(story.claim("one", at=at, by="b", receives=2), at + 1, by="b")
    assert list(story.violations()) == accused


def test_a_released_message_may_be_handed_out(story: Story) -> None:
    story.publish("one")
    story.act(story.claim("one", at=1), 2, records.RELEASE)
    story.act(story.claim("one", at=3, receives=2), 4)
    assert story.violations() == {}


@pytest.mark.parametrize(("told", "accused"), [(records.OK, [3]), (records.STALE, []), (None, [])])
def test_an_extended_hold(story: Story, told: str | None, accused: list[int]) -> None:
    story.publish("one")
    story.act(story.claim("one", at=1), 10.9, records.EXTEND, told)
    story.act(story.claim("one", at=15, by="b", receives=2), 16, by="b")
    assert list(story.violations()) == accused


def test_the_same_count_of_receives_is_told_once(story: Story) -> None:
    story.publish("one")
    story.claim("one", at=1)
    story.act(story.claim("one", at=1.05, by="b"), 3, by="b")
    assert list(story.violations()) == [3]


# 4


def test_a_settle_of_somebody_who_was_followed(story: Story) -> None:
    story.publish("one")
    first = story.claim("one", at=1)
    second = story.claim("one", at=20, by="b", receives=2)
    story.act(first, 25)
    story.act(second, 26, by="b", outcome=records.STALE)
    assert 4 in story.violations()


def test_the_same_after_the_follower_settled(story: Story) -> None:
    story.publish("one")
    first = story.claim("one", at=1)
    second = story.claim("one", at=20, by="b", receives=2)
    story.act(second, 22, by="b")
    story.act(first, 25)
    assert story.violations() == {}


def test_a_holder_who_is_refused(story: Story) -> None:
    story.publish("one")
    claim = story.claim("one", at=1)
    story.act(claim, 2, outcome=records.STALE)
    story.act(story.claim("one", at=20, receives=2), 21)
    assert list(story.violations()) == [4]


@pytest.mark.parametrize(("topic", "key", "accused"), [("orders", None, []), ("accounts", "k", [4])])
def test_a_late_settle_counts_in_no_order_only(story: Story, topic: str, key: str | None, accused: list[int]) -> None:
    story.publish("one", topic=topic, key=key)
    story.act(story.claim("one", at=1, subscription=topic, key=key), 20)
    assert list(story.violations()) == accused


# 5


def test_a_settled_message_that_comes_back(story: Story) -> None:
    story.publish("one")
    story.act(story.claim("one", at=1), 2)
    story.claim("one", at=20, receives=2)
    assert list(story.violations()) == [5]


def test_one_that_was_asked_for_before_it_was_settled(story: Story) -> None:
    story.publish("one")
    story.act(story.claim("one", at=1), 20)
    story.act(story.claim("one", at=20.05, receives=2), 21)
    assert story.violations() == {}


def test_a_settled_message_that_becomes_a_dead_letter(story: Story) -> None:
    story.publish("one", topic="jobs")
    story.act(story.claim("one", at=1, subscription="jobs"), 2)
    story.act(story.claim("one", at=20, subscription="jobs-dead"), 21)
    assert list(story.violations()) == [5]


@pytest.mark.parametrize(("at", "accused"), [(1.2, []), (2.0, [5])])
def test_a_hand_out_after_expiry(story: Story, at: float, accused: list[int]) -> None:
    story.publish("one", topic="offers", expires_in=1)
    story.act(story.claim("one", at=at, subscription="offers"), at + 1)
    assert list(story.violations()) == accused


# 6


def _two_of_a_key(story: Story) -> None:
    story.publish("one", topic="accounts", key="k")
    story.publish("two", topic="accounts", key="k")


def test_a_key_in_order(story: Story) -> None:
    _two_of_a_key(story)
    story.act(story.claim("one", at=1, subscription="accounts", key="k"), 2)
    story.act(story.claim("two", at=3, subscription="accounts", key="k"), 4)
    assert story.violations() == {}


def test_a_key_out_of_order(story: Story) -> None:
    _two_of_a_key(story)
    story.act(story.claim("two", at=1, subscription="accounts", key="k"), 2)
    story.act(story.claim("one", at=3, subscription="accounts", key="k"), 4)
    assert list(story.violations()) == [6]


def test_a_key_that_is_busy(story: Story) -> None:
    _two_of_a_key(story)
    first = story.claim("one", at=1, subscription="accounts", key="k")
    story.act(story.claim("two", at=2, subscription="accounts", key="k", by="b"), 3, by="b")
    story.act(first, 4)
    assert list(story.violations()) == [6]


def test_one_answer_may_hold_several_of_a_key(story: Story) -> None:
    _two_of_a_key(story)
    story.claim("one", "two", at=1, subscription="accounts", key="k")
    story.act(story.claim("one", at=20, subscription="accounts", key="k", receives=2), 21)
    story.act(story.claim("two", at=22, subscription="accounts", key="k", receives=2), 23)
    assert story.violations() == {}


# 7 and 8


def test_a_subscription_that_is_left_out(story: Story) -> None:
    story.publish("one", topic="news")
    story.act(story.claim("one", at=1, subscription="news-reader"), 2)
    assert list(story.violations()) == [7]


def test_what_no_subscription_has_is_lost(story: Story) -> None:
    story.publish("one", topic="news")
    assert list(story.violations()) == [1]


def test_a_sequence_that_is_used_twice(story: Story) -> None:
    story.publish("one", sequence=7)
    story.publish("two", sequence=7)
    for name in ("one", "two"):
        story.act(story.claim(name, at=1), 2)
    assert list(story.violations()) == [8]


# A run


def test_what_was_checked_on_nothing_is_not_fine() -> None:
    history = History(streams("", frozenset()))
    found = outcome(history, judge(history), Counter(), [], 0, Path())
    complaints = missing(found, frozenset({"brokers", "expiry"}))
    assert [f"Invariant {number} was checked on nothing." for number in range(1, 9)] == complaints[2:]
    assert complaints[0] == "The fault 'brokers' was asked for and never happened."
    assert complaints[1] == "The fault 'expiry' was asked for and never happened."
