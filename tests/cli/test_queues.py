"""`rowlock queue`, `topic` and `subscription`: what is created, changed, shown and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from rowlock.cli.settings import SHAPES
from rowlock.settings import SubscriptionSettings, TopicSettings

if TYPE_CHECKING:
    from tests.cli.conftest import Rowlock

EVERY_SETTING = {
    "--partitions=2": ("partitions", 2),
    "--max-message-bytes=2000": ("max_message_bytes", 2000),
    "--delay=2s": ("delay", 2),
    "--expires-in=1h": ("expires_in", 3600),
    "--retention=1d": ("retention", 86400),
    "--max-retention=2d": ("max_retention", 2 * 86400),
    "--durability=relaxed": ("durability", "relaxed"),
    "--deduplication-window=1m": ("deduplication_window", 60),
    "--visibility-timeout=5m": ("visibility_timeout", 300),
    "--max-in-flight=10": ("max_in_flight", 10),
    "--order=none": ("order", "none"),
    "--fair": ("fair", True),
    "--delivery=at-most-once": ("delivery", "at-most-once"),
    "--max-receives=5": ("max_receives", 5),
    "--dead-letter=dead": ("dead_letter", "dead"),
    "--dead-letter-expired": ("dead_letter_expired", True),
    "--backoff=exponential:1s,factor=3,max=1m,jitter=0.1": (
        "backoff",
        {"kind": "exponential", "seconds": 1, "factor": 3, "max_seconds": 60, "jitter": 0.1},
    ),
    "--look-ahead=100": ("look_ahead", 100),
}


def test_every_setting_of_the_library_is_an_option() -> None:
    known = {field.name for kind in (TopicSettings, SubscriptionSettings) for field in msgspec.structs.fields(kind)}
    assert set(SHAPES) == known - {"reader"}
    assert {name for name, _ in EVERY_SETTING.values()} == set(SHAPES)


def test_a_queue_has_the_settings_that_it_was_created_with(rowlock: Rowlock) -> None:
    created = rowlock.json("queue", "create", "orders", *EVERY_SETTING)
    assert {name: created["settings"][name] for name, _ in EVERY_SETTING.values()} == dict(EVERY_SETTING.values())
    assert rowlock.json("queue", "show", "orders")["settings"] == created["settings"]


def test_create_again(rowlock: Rowlock) -> None:
    rowlock("queue", "create", "orders", "--delay", "5")
    rowlock("queue", "create", "orders", "--delay", "5")
    assert "delay is 5.0, not 6" in rowlock.refusal("queue", "create", "orders", "--delay", "6")


def test_show_is_complete(rowlock: Rowlock) -> None:
    rowlock("queue", "create", "orders")
    rowlock("send", "orders", "a", "b")
    shown = rowlock.json("queue", "show", "orders")
    assert set(shown) == {"name", "kind", "id", "created_at", "owner", "settings", "topics", "partitions", "depth"}
    assert shown["depth"].pop("oldest_age") >= 0
    assert shown["depth"] == {"ready": 2, "in_flight": 0, "delayed": 0, "dying": 0, "total": 2}
    assert shown["partitions"] == [{"topic": "orders", "partition": 0, "frontier": 1, "last": 2, "lag": 2}]
    text = rowlock("queue", "show", "orders").stdout
    assert "2 messages: 2 ready, 0 in flight, 0 delayed" in text
    assert "visibility_timeout     30 s" in text


def test_list(rowlock: Rowlock) -> None:
    assert "There is no such queue in sqlite://" in rowlock("queue", "list").stderr
    rowlock("queue", "create", "orders")
    rowlock("queue", "create", "other")
    rowlock("send", "orders", "a")
    listed = rowlock.json("queue", "list", "or")
    assert [(one["name"], one["depth"]["ready"]) for one in listed] == [("orders", 1)]
    assert set(listed[0]) == {"name", "kind", "created_at", "owner", "depth"}
    assert [set(one) for one in rowlock.json("queue", "list", "--no-depth")] == [
        {"name", "kind", "created_at", "owner"}
    ] * 2
    lines = rowlock("queue", "list").stdout.splitlines()
    assert lines[1].split() == ["Queue", "Ready", "In", "flight", "Delayed", "Oldest", "Created", "Owner"]
    assert max(map(len, lines)) <= 100


def test_alter(rowlock: Rowlock) -> None:
    rowlock("queue", "create", "orders", "--expires-in", "1h", "--fair")
    altered = rowlock.json("queue", "alter", "orders", "--expires-in", "none", "--no-fair", "--backoff", "fixed:2s")
    settings = altered["settings"]
    assert (settings["expires_in"], settings["fair"], settings["backoff"]) == (
        None,
        False,
        {"kind": "fixed", "seconds": 2},
    )
    assert "fixed:2s" in rowlock("queue", "show", "orders").stdout
    assert "Name at least one setting" in rowlock.misuse("queue", "alter", "orders")


def test_alter_is_refused_whole(rowlock: Rowlock) -> None:
    before = rowlock.json("queue", "create", "orders")["settings"]
    refused = rowlock.refusal("queue", "alter", "orders", "--retention", "1d", "--visibility-timeout", "13h")
    assert refused == "visibility_timeout is 46800.0: it must be between 0 and 43200 seconds."
    assert rowlock.json("queue", "show", "orders")["settings"] == before


def test_purge_and_delete(rowlock: Rowlock) -> None:
    rowlock("queue", "create", "orders")
    rowlock("send", "orders", "a", "b")
    assert rowlock.json("queue", "purge", "orders") == {"purged": "orders"}
    assert rowlock.json("receive", "orders") == []
    assert rowlock.json("queue", "delete", "orders") == {"deleted": "orders"}
    assert rowlock.json("queue", "list") == []
    assert "'orders'" in rowlock.refusal("queue", "delete", "orders")


def test_a_topic_and_its_subscriptions(rowlock: Rowlock) -> None:
    assert rowlock.json("topic", "create", "news", "--partitions", "2")["settings"]["partitions"] == 2
    rowlock("topic", "alter", "news", "--partitions", "3")
    assert len(rowlock.json("topic", "show", "news")["partitions"]) == 3
    rowlock("subscription", "create", "late", "news")
    rowlock("send", "news", "a")
    rowlock("subscription", "create", "early", "news", "--start", "earliest", "--order", "none")
    depths = {one["name"]: one["depth"]["ready"] for one in rowlock.json("subscription", "list")}
    assert depths == {"late": 1, "early": 1}
    assert rowlock.json("subscription", "show", "early")["topics"] == ["news"]
    rowlock("subscription", "alter", "early", "--visibility-timeout", "1m")
    assert "read by 2 subscriptions" in rowlock.refusal("topic", "delete", "news")
    rowlock("subscription", "delete", "early")
    rowlock("subscription", "delete", "late")
    rowlock("topic", "delete", "news")
    assert rowlock.json("topic", "list") == []


def test_a_reader_is_moved_by_commit(rowlock: Rowlock) -> None:
    rowlock("topic", "create", "news")
    rowlock("send", "news", "a", "b", "c")
    rowlock("subscription", "create", "export", "news", "--reader")
    assert rowlock.json("subscription", "show", "export")["depth"]["ready"] == 3
    assert rowlock.json("subscription", "commit", "export", "3") == {"reader": "export", "partition": 0, "next": 3}
    assert rowlock.json("subscription", "show", "export")["depth"]["ready"] == 1
    assert "is a reader" in rowlock.refusal("receive", "export")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["queue", "create", "a b"], "'a b' is not allowed as a queue's name: use 1 to 80"),
        (["queue", "create", "q", "--partitions", "0"], "partitions is 0: it must be between 1 and 256."),
        (["queue", "create", "q", "--visibility-timeout", "13h"], "it must be between 0 and 43200 seconds."),
        (["queue", "create", "q", "--max-receives", "5"], "max_receives and dead_letter_expired need dead_letter"),
        (["queue", "create", "q", "--durability", "replicated"], "SQLite has no standby"),
        (["subscription", "create", "s", "nothing"], "'nothing'"),
        (["queue", "show", "nothing"], "There is no subscription or queue named 'nothing'."),
    ],
)
def test_refused_before_anything_is_written(rowlock: Rowlock, arguments: list[str], says: str) -> None:
    assert says in rowlock.refusal(*arguments)
    assert rowlock.json("topic", "list") == rowlock.json("subscription", "list") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["queue", "create"], "Missing argument"),
        (["queue", "create", "q", "--partitions", "many"], "'many' is no whole number."),
        (["queue", "create", "q", "--delay", "soon"], "'soon' is no duration"),
        (["queue", "create", "q", "--order", "some"], "'some' is no order: it must be 'none' or 'key' or 'topic'."),
        (["queue", "create", "q", "--backoff", "fixed"], "'fixed' is no backoff"),
        (["queue", "create", "q", "--backoff", "fixed:1s,factor=2"], "is no backoff"),
        (["queue", "create", "q", "--backoff", "exponential:1s,speed=2"], "is no backoff"),
        (["subscription", "create", "s", "t", "--start", "now"], "'now' is no place to start"),
    ],
)
def test_wrong_usage(rowlock: Rowlock, arguments: list[str], says: str) -> None:
    assert says in rowlock.misuse(*arguments)
