"""Bad input: every argument of every public method is checked at the edge and refused with a sentence that names the
value and the limit, before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import rowlock
from rowlock import Broker, Message
from rowlock.errors import InvalidArgument, NotFound, PublishRefused, RowlockError, StaleReceipt

from .rig import Rig

LONG_AGO = datetime.min  # noqa: DTZ901
FAR_AWAY = datetime.max  # noqa: DTZ901

Call = Callable[[Broker, Any], Awaitable[object]]

NOT_TEXT: list[Any] = [None, 5, 1.5, b"bytes", object(), ["q"], {"q": 1}, True]
BAD_TEXT: list[Any] = ["", "x" * 300, "a\0b", "\ud800", "a b", "é"]
BAD_NAMES: list[Any] = [*NOT_TEXT, *BAD_TEXT]
BAD_SECONDS: list[Any] = ["5", None, -1, -0.001, float("nan"), float("inf"), 10**12, 10**400, True, [], b"1"]
BAD_COUNTS: list[Any] = ["5", None, 0, -1, 1.5, float("nan"), 10**12, 10**400, True, []]

NAMED: dict[str, Call] = {
    "create_queue": lambda broker, bad: broker.create_queue(bad),
    "create_topic": lambda broker, bad: broker.create_topic(bad),
    "create_subscription": lambda broker, bad: broker.create_subscription(bad, "q"),
    "create_subscription topics": lambda broker, bad: broker.create_subscription("s", [bad]),
    "create_reader": lambda broker, bad: broker.create_reader(bad, "q"),
    "alter_queue": lambda broker, bad: broker.alter_queue(bad, delay=1),
    "alter_topic": lambda broker, bad: broker.alter_topic(bad, delay=1),
    "alter_subscription": lambda broker, bad: broker.alter_subscription(bad, fair=True),
    "delete_queue": lambda broker, bad: broker.delete_queue(bad),
    "delete_topic": lambda broker, bad: broker.delete_topic(bad),
    "delete_subscription": lambda broker, bad: broker.delete_subscription(bad),
    "show_queue": lambda broker, bad: broker.show_queue(bad),
    "show_topic": lambda broker, bad: broker.show_topic(bad),
    "show_subscription": lambda broker, bad: broker.show_subscription(bad),
    "depth": lambda broker, bad: broker.depth(bad),
    "publish": lambda broker, bad: broker.publish(bad, b"m"),
    "claim": lambda broker, bad: broker.claim(bad),
    "claim and wait": lambda broker, bad: broker.claim(bad, wait=1),
    "seek": lambda broker, bad: broker.seek(bad, "latest"),
    "commit": lambda broker, bad: broker.commit(bad, 1),
    "purge": lambda broker, bad: broker.purge(bad),
    "redrive": lambda broker, bad: broker.redrive(bad),
    "redrive destination": lambda broker, bad: broker.redrive("q", bad or ""),
    "dead_letter": lambda broker, bad: broker.alter_queue("q", max_receives=1, dead_letter=bad),
}

VALUED: dict[str, tuple[Call, list[Any]]] = {
    "max_messages": (lambda broker, bad: broker.claim("q", bad), [*BAD_COUNTS, 1001]),
    "visibility_timeout": (
        lambda broker, bad: broker.claim("q", visibility_timeout=bad),
        [bad for bad in BAD_SECONDS if bad is not None] + [43201],
    ),
    "wait": (lambda broker, bad: broker.claim("q", wait=bad), [*BAD_SECONDS, 20.5]),
    "extend": (lambda broker, bad: broker.extend([], bad), [*BAD_SECONDS, 43201]),
    "release": (lambda broker, bad: broker.release([], bad), [bad for bad in BAD_SECONDS if bad is not None] + [43201]),
    "settle": (
        lambda broker, bad: broker.settle(bad),
        [None, 5, [5], [None], ["x"], [b"x"], ["\ud800"], ["ä"], [object()]],
    ),
    "extend what": (lambda broker, bad: broker.extend(bad, 5), [None, 5, [5], ["x"]]),
    "release what": (lambda broker, bad: broker.release(bad), [None, 5, [5], ["x"]]),
    "seek to": (
        lambda broker, bad: broker.seek("q", bad),
        [None, True, "x", -1, 2**62, 10**400, float("nan"), float("inf"), -1.0, [], b"1", object(), LONG_AGO],
    ),
    "seek partition": (
        lambda broker, bad: broker.seek("q", "latest", partition=bad),
        ["0", -1, 1, 1.5, 10**400, [], True],
    ),
    "commit": (
        lambda broker, bad: broker.commit("r", bad),
        [None, True, "earliest", "x", -1, 2**62, 1.5, float("nan"), [], datetime.now(UTC)],
    ),
    "commit partition": (lambda broker, bad: broker.commit("r", 1, partition=bad), [None, "0", -1, 1, 1.5, [], True]),
    "redrive rate": (
        lambda broker, bad: broker.redrive("q", "other", rate=bad),
        ["5", 0, -1, float("nan"), float("inf"), 10**12, True, []],
    ),
    "cancel_redrive": (lambda broker, bad: broker.cancel_redrive(bad), [None, "1", -1, 0, 1.5, 2**70, [], True]),
    "redrives": (lambda broker, bad: broker.redrives(bad), [5, b"q", [], "a\0", "\ud800"]),
    "queues": (lambda broker, bad: broker.queues(bad), [None, 5, b"q", [], "a\0", "\ud800", "x" * 1000]),
    "topics": (lambda broker, bad: broker.topics(bad), [None, 5, b"q", [], "a\0", "\ud800"]),
    "subscriptions": (lambda broker, bad: broker.subscriptions(bad), [None, 5, b"q", [], "a\0", "\ud800"]),
    "topics of a subscription": (lambda broker, bad: broker.create_subscription("s", bad), [None, 5, [], [[]], {}]),
    "too many topics": (lambda broker, bad: broker.create_subscription("s", bad), [[f"t{at}" for at in range(257)]]),
    "start": (lambda broker, bad: broker.create_subscription("s", "q", start=bad), [None, 5, "", "middle", []]),
    "publish what": (lambda broker, bad: broker.publish("q", bad), [None, 5, object(), [b"m"] * 10_001]),
}

SETTINGS: dict[str, list[Any]] = {
    "partitions": [0, -1, 257, 1.5, "2", None, True, 10**400, float("nan")],
    "max_message_bytes": [0, -1, 1024 * 1024 + 1, "9", None, 1.5],
    "delay": [-1, 366 * 24 * 3600 + 1, "1", None, float("nan"), float("inf")],
    "expires_in": [0, -1, 1e12, "1", float("nan")],
    "retention": [0, -1, 1e12, "for ever", None, float("nan"), float("inf"), []],
    "max_retention": [0, -1, 1e12, "1", None, float("nan")],
    "durability": ["", "Local", None, 5],
    "deduplication_window": [0, -1, 3601, "1", None, float("nan")],
    "visibility_timeout": [-1, 43201, "30", None, float("nan")],
    "max_in_flight": [0, -1, 1_000_001, "5", None, 1.5],
    "order": ["", "Key", None, 5],
    "fair": ["yes", 1, None],
    "delivery": ["", "exactly-once", None],
    "max_receives": [0, -1, 1001, "5", 1.5],
    "dead_letter_expired": ["yes", 1, None],
    "look_ahead": [0, -1, 200_001, "5", None],
    "backoff": [
        5, "fixed", {}, {"kind": "fixed"}, {"kind": "linear", "seconds": 1}, {"kind": "fixed", "seconds": -1},
        {"kind": "fixed", "seconds": 50_000}, {"kind": "exponential", "seconds": 1, "factor": 0.5},
        {"kind": "exponential", "seconds": 1, "jitter": 2}, {"kind": "exponential", "seconds": 1, "more": 2},
        {"kind": "exponential", "seconds": 1, "max_seconds": 1e9},
    ],
    "visibilty_timeout": [30],
}  # fmt: skip

BAD_TIMES: list[Any] = ["5", -1, float("nan"), float("inf"), 1e12, True, []]
BAD_IDS: list[Any] = ["", "x" * 129, "a\0", "\ud800", 5, b"d", []]

FIELDS: dict[str, list[Any]] = {
    "body": [None, "text", 5, [1], object()],
    "key": BAD_IDS,
    "deduplication_id": BAD_IDS,
    "expires_in": BAD_TIMES,
    "delay": BAD_TIMES,
    "due_at": [5, "now", 1.5, FAR_AWAY, []],
    "attributes": [
        "a", ["a"], {5: "x"}, {"": "x"}, {"x" * 257: 1}, {"a\0": 1}, {"\ud800": 1}, {"a": "\ud800"}, {"a": None},
        {"a": []}, {"a": {"b": 1}}, {"a": 2**63}, {"a": object()}, {f"a{at}": 1 for at in range(65)},
    ],
}  # fmt: skip


@pytest.fixture
async def used(rig: Rig, broker: Broker) -> Broker:
    """A broker whose database has something in it, to see that nothing of it changes."""
    for name in ("q", "other"):
        await broker.create_queue(name)
    await broker.create_reader("r", "q")
    await broker.publish("q", [b"1", b"2"])
    return broker


async def everything(broker: Broker) -> list[object]:
    described = [*await broker.topics(), *await broker.subscriptions(), *await broker.redrives()]
    shown = [await broker.show_queue(name) for name in ("q", "other")] + [await broker.show_subscription("r")]
    return [*described, *((one.settings, one.partitions, one.depth and one.depth.total) for one in shown)]


async def refused(call: Awaitable[object], *kinds: type[RowlockError]) -> str:
    """The sentence that it is refused with."""
    with pytest.raises(kinds or (InvalidArgument, NotFound)) as error:
        await call
    text = str(error.value)
    assert text.count(" ") > 3, f"no sentence: {text}"
    assert len(text) < 600, "a sentence repeats a bounded part of the value"
    return text


async def test_names(used: Broker) -> None:
    before = await everything(used)
    for what, call in NAMED.items():
        for bad in BAD_NAMES:
            try:
                await refused(call(used, bad))
            except BaseException as error:
                error.add_note(f"{what} with {bad!r}")
                raise
    assert await everything(used) == before


@pytest.mark.parametrize("what", VALUED)
async def test_values(used: Broker, what: str) -> None:
    before = await everything(used)
    call, values = VALUED[what]
    for bad in values:
        try:
            await refused(call(used, bad))
        except BaseException as error:
            error.add_note(f"{what} with {bad!r:.100}")
            raise
    assert await everything(used) == before


async def test_settings(used: Broker) -> None:
    before = await everything(used)
    for name, values in SETTINGS.items():
        for bad in values:
            extra = {"dead_letter": "other"} if name in ("max_receives", "dead_letter_expired") else {}
            for call in (
                used.create_queue("new", **{name: bad}, **extra),
                used.alter_queue("q", **{name: bad}, **extra),
            ):
                try:
                    text = await refused(call)
                    assert name in text
                except BaseException as error:
                    error.add_note(f"{name} = {bad!r}")
                    raise
    assert await everything(used) == before


async def test_messages(used: Broker) -> None:
    before = await everything(used)
    fields: list[dict[str, Any]] = [{"body": b"m"} | {name: bad} for name, values in FIELDS.items() for bad in values]
    messages: list[Any] = ["text", 5, None, object(), *(Message(**one) for one in fields)]
    for bad in messages:
        try:
            with pytest.raises((PublishRefused, InvalidArgument)) as error:
                await used.publish("q", [bad])
            assert len(str(error.value)) < 600
        except BaseException as error:
            error.add_note(f"{bad!r}")
            raise
    assert await everything(used) == before


async def test_receipts_that_are_well_made_and_belong_to_nothing(used: Broker) -> None:
    from rowlock.ids import Receipt, seal

    secret = used._engine.secret
    subscription = await used._engine.catalog.subscription("q")
    part = subscription.sources[0].part
    for receipt in (
        Receipt(2**62, part, 1, 1),
        Receipt(subscription.id, 2**62, 1, 1),
        Receipt(subscription.id, part, 2**62, 5),
        Receipt(subscription.id, part, 1, 0),
        Receipt(0, 0, 0, 0),
    ):
        await refused(used.settle([seal(receipt, secret)]), StaleReceipt)


OPTIONS: dict[str, list[Any]] = {
    "lanes": [0, -1, 65, "2", 1.5, True],
    "owner": ["", 5, "x" * 129, "a\0", "\ud800"],
    "patience": ["5", -1, float("nan"), None, 10**9],
    "create_on_use": ["yes", None, 1],
}


async def opened(url: Any, **options: Any) -> None:
    async with rowlock.open(url, **options):
        pass


async def test_options_of_open(store_url: str) -> None:
    for name, values in OPTIONS.items():
        for bad in values:
            try:
                await refused(opened(store_url, **{name: bad}))
            except BaseException as error:
                error.add_note(f"{name} = {bad!r}")
                raise


@pytest.mark.parametrize(
    "url",
    [None, 5, "", "x", "sqlite://", "sqlite:///", "sqlite:///:memory:", "oracle://x/y", "mysql://", "mysql://h:x/d",
     "sqlite:////no/such/folder/x.db", "mysql://h/d?x=1"],
)  # fmt: skip
async def test_addresses(url: Any) -> None:
    await refused(opened(url))


async def test_a_closed_broker_says_so(rig: Rig) -> None:
    broker = await rig.open()
    await broker.create_queue("q")
    rig.brokers.remove(broker)
    await broker.close()
    await broker.close()
    for call in (broker.publish("q", b"m"), broker.claim("q"), broker.claim("q", wait=1), broker.create_queue("r"),
                 broker.depth("q"), broker.queues(), broker.redrive("q"), broker.purge("q")):  # fmt: skip
        with pytest.raises(RowlockError, match=r"closed|not open"):
            await call
