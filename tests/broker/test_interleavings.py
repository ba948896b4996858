"""Two brokers on one database, step by step: one stands still in its transaction while the other does something.

A stop `after lock` holds the locks; one `before commit` holds them as well where the store decides under lock, and
holds nothing where it compares and writes in one call: both orders of the two are seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from rowlock import Message
from rowlock.errors import NotFound, PublishRefused, StaleReceipt

from .rig import bodies, clear, drain, eventually, quiet, sweep, trim

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig

both_places = pytest.mark.parametrize("place", ["before lock", "after lock", "before commit"])


async def meanwhile(rig: Rig, one: Broker, place: str, action: Awaitable[object], then: Awaitable[object]) -> list[Any]:
    """`one` begins its action and stops; the other begins its own, and goes on or waits for the lock; `one` goes on."""
    stop = rig.stop(one, place)
    first = asyncio.ensure_future(action)
    await stop.wait()
    second = asyncio.ensure_future(then)
    await asyncio.wait([second], timeout=0.03)
    stop.release()
    return list(await asyncio.gather(first, second, return_exceptions=True))


@pytest.fixture
async def queue(broker: Broker, other: Broker) -> str:
    """Both brokers know it, and what is in it."""
    await broker.create_queue("q", visibility_timeout=30)
    await broker.publish("q", [b"1", b"2", b"3", b"4"])
    for one in (broker, other):
        [message] = await one.claim("q")
        await message.settle()
    return "q"


@both_places
async def test_two_claims(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    one, two = await meanwhile(rig, broker, place, broker.claim(queue), other.claim(queue))
    assert sorted(bodies(one) + bodies(two)) == [b"3", b"4"]
    assert await broker.claim(queue, 9) == await other.claim(queue, 9) == []


@both_places
async def test_two_publishes(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    one, two = await meanwhile(rig, broker, place, broker.publish(queue, b"5"), other.publish(queue, b"6"))
    assert sorted([one[0].sequence, two[0].sequence]) == [5, 6]
    assert len(await drain(broker, queue)) == 4


@both_places
async def test_claim_against_settle(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    [held] = await other.claim(queue)
    claimed, settled = await meanwhile(rig, broker, place, broker.claim(queue, 9), held.settle())
    assert settled is None
    assert bodies(claimed) == [b"4"]
    await rig.advance(31)
    assert bodies(await other.claim(queue, 9)) == [b"4"]


@both_places
async def test_settle_against_claim_of_what_ran_out(
    rig: Rig, broker: Broker, other: Broker, queue: str, place: str
) -> None:
    """Whoever is first is right, and the other is told."""
    [held] = await other.claim(queue)
    await rig.advance(31)
    claimed, settled = await meanwhile(rig, broker, place, broker.claim(queue, 9), held.settle())
    if isinstance(settled, StaleReceipt):
        assert bodies(claimed) == [b"3", b"4"]
    else:
        assert settled is None
        assert bodies(claimed) == [b"4"]


@both_places
async def test_settle_against_settle(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    one, two = await broker.claim(queue, 2)
    await meanwhile(rig, broker, place, one.settle(), other.settle([two.receipt, one.receipt]))
    await rig.advance(31)
    assert await broker.claim(queue, 9) == []


@both_places
async def test_expiry_against_extend(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    """A hold that runs out while its extension is under way: either it is extended, or another has it; never both."""
    [held] = await broker.claim(queue)
    stop = rig.stop(broker, place)
    extending = asyncio.create_task(held.extend(60))
    await stop.wait()
    await rig.advance(31)
    claiming = asyncio.create_task(other.claim(queue))
    await asyncio.wait([claiming], timeout=0.03)
    stop.release()
    extended, claimed = await asyncio.gather(extending, claiming, return_exceptions=True)
    assert not isinstance(claimed, BaseException)
    if isinstance(extended, StaleReceipt):
        assert bodies(claimed) == [b"3"]
    else:
        assert extended is None
        assert bodies(claimed) == [b"4"]


@both_places
async def test_extend_against_dead_lettering(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_queue("d", visibility_timeout=30, max_receives=1, dead_letter="dead")
    await broker.publish("d", b"m")
    [held] = await broker.claim("d")
    stop = rig.stop(broker, place)
    extending = asyncio.create_task(held.extend(600))
    await stop.wait()
    rig.shift_only_database(31)
    sweeping = asyncio.create_task(sweep(other))
    await asyncio.wait([sweeping], timeout=0.03)
    stop.release()
    extended, _ = await asyncio.gather(extending, sweeping, return_exceptions=True)
    await rig.advance(0)
    await sweep(other)
    dead = bodies(await other.claim("dead"))
    assert (isinstance(extended, StaleReceipt), dead) in ((True, [b"m"]), (False, []))


@both_places
async def test_purge_against_publish(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    _, published = await meanwhile(rig, broker, place, broker.purge(queue), other.publish(queue, b"5"))
    assert not isinstance(published, BaseException)
    left = await drain(broker, queue)
    assert left in ([], [b"5"])
    assert (await other.depth(queue)).total == 0
    await other.publish(queue, b"6")
    assert await drain(other, queue) == [b"6"]


@both_places
async def test_publish_against_purge(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    delayed = Message(b"later", delay=60)
    await meanwhile(rig, broker, place, broker.publish(queue, [b"5", delayed]), other.purge(queue))
    left = await drain(broker, queue)
    delays = (await other.depth(queue)).delayed
    assert (left, delays) in (([], 0), ([b"5"], 1))


@both_places
async def test_seek_against_claim(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_queue("s", retention=3600)
    await broker.publish("s", [b"1", b"2", b"3"])
    for one in (broker, other):
        await one.settle(await one.claim("s"))
    _, claimed = await meanwhile(rig, broker, place, broker.seek("s", "earliest"), other.claim("s"))
    assert not isinstance(claimed, BaseException)
    [message] = claimed
    if message.body == b"1":
        await message.settle()
        assert await drain(broker, "s") == [b"2", b"3"]
    else:
        assert message.body == b"3"
        with pytest.raises(StaleReceipt):
            await message.settle()
        assert await drain(broker, "s") == [b"1", b"2", b"3"]


@both_places
async def test_claim_against_seek(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_queue("s", retention=3600)
    await broker.publish("s", [b"1", b"2", b"3"])
    for one in (broker, other):
        await one.settle(await one.claim("s"))
    claimed, _ = await meanwhile(rig, broker, place, broker.claim("s"), other.seek("s", "earliest"))
    [message] = claimed
    rest = await drain(other, "s")
    assert (message.body, rest) in ((b"3", [b"1", b"2", b"3"]), (b"1", [b"2", b"3"]))


@both_places
async def test_settle_against_seek(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_queue("s", retention=3600)
    await broker.publish("s", [b"1", b"2"])
    [held] = await broker.claim("s")
    await other.claim("s")
    settled, _ = await meanwhile(rig, broker, place, held.settle(), other.seek("s", "earliest"))
    assert settled is None or isinstance(settled, StaleReceipt)
    assert await drain(other, "s") == [b"1", b"2"]


@both_places
async def test_retention_against_claim_and_settle(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_queue("r", retention=3600)
    await broker.publish("r", [b"1", b"2", b"3"])
    [held] = await other.claim("r", visibility_timeout=12 * 3600)
    await rig.advance(3601)
    await broker.publish("r", b"4")

    async def use() -> list[bytes]:
        claimed = await other.claim("r", 9)
        await held.settle()
        return bodies(claimed)

    _, found = await meanwhile(rig, broker, place, trim(broker, "r"), use())
    assert found in ([b"4"], [b"2", b"3"], [b"2", b"3", b"4"])
    assert await drain(broker, "r") == [b"4"][: b"4" not in found]


DELETED_DURING = ["publish", "claim", "settle", "extend", "seek", "purge", "alter", "depth", "wait"]


@pytest.mark.parametrize("verb", DELETED_DURING)
@pytest.mark.parametrize("place", ["before lock", "before commit"])
async def test_delete_against_everything(
    rig: Rig, broker: Broker, other: Broker, queue: str, verb: str, place: str
) -> None:
    """The other verb is done, or refused in words; and the queue made anew under the name has nothing of it."""
    [held] = await broker.claim(queue)
    actions: dict[str, Callable[[], Awaitable[object]]] = {
        "publish": lambda: broker.publish(queue, b"5"),
        "claim": lambda: broker.claim(queue, 9),
        "settle": held.settle,
        "extend": lambda: held.extend(60),
        "seek": lambda: broker.seek(queue, "latest"),
        "purge": lambda: broker.purge(queue),
        "alter": lambda: broker.alter_queue(queue, visibility_timeout=31),
        "depth": lambda: broker.depth(queue),
        "wait": lambda: broker.claim(queue, 9, wait=0.2),
    }
    if verb == "depth":
        answers = list(await asyncio.gather(broker.depth(queue), other.delete_queue(queue), return_exceptions=True))
    else:
        answers = await meanwhile(rig, broker, place, actions[verb](), other.delete_queue(queue))
    assert answers[1] is None
    assert not isinstance(answers[0], BaseException) or isinstance(answers[0], NotFound | StaleReceipt)
    await other.create_queue(queue)
    assert await broker.claim(queue, 9) == []
    await clear(other)
    await broker.publish(queue, b"new")
    assert await drain(other, queue) == [b"new"]


@pytest.mark.parametrize("verb", ["publish", "claim", "settle"])
@pytest.mark.parametrize("place", ["before commit", "after lock"])
async def test_everything_against_delete(
    rig: Rig, broker: Broker, other: Broker, queue: str, verb: str, place: str
) -> None:
    """The one that deletes is stopped."""
    [held] = await other.claim(queue)
    actions: dict[str, Callable[[], Awaitable[object]]] = {
        "publish": lambda: other.publish(queue, b"5"),
        "claim": lambda: other.claim(queue, 9),
        "settle": held.settle,
    }
    deleted, used = await meanwhile(rig, broker, place, broker.delete_queue(queue), actions[verb]())
    assert deleted is None
    assert not isinstance(used, BaseException) or isinstance(used, NotFound | StaleReceipt)
    await clear(broker)
    with pytest.raises(NotFound):
        await other.claim(queue)


@both_places
async def test_alter_against_use(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    altered, published = await meanwhile(
        rig, broker, place, broker.alter_queue(queue, max_message_bytes=5), other.publish(queue, b"12345678")
    )
    assert altered is None
    assert not isinstance(published, BaseException) or isinstance(published, PublishRefused)
    with pytest.raises(PublishRefused):
        await other.publish(queue, b"12345678")
    await other.publish(queue, b"1")


@both_places
async def test_use_against_alter(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    claimed, altered = await meanwhile(
        rig, broker, place, broker.claim(queue), other.alter_queue(queue, visibility_timeout=500)
    )
    assert altered is None
    [message] = claimed
    await message.settle()
    await broker.claim(queue)
    await rig.advance(499)
    assert await other.claim(queue, 9) == []


@both_places
async def test_two_dead_letterings_of_one_message(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_queue("d", visibility_timeout=30, max_receives=1, dead_letter="dead")
    await broker.publish("d", [b"1", b"2"])
    await broker.claim("d")
    await other.claim("d")
    stop = rig.stop(broker, place)
    await rig.advance(31)
    await stop.wait()
    others = asyncio.create_task(sweep(other))
    await asyncio.wait([others], timeout=0.03)
    stop.release()
    await others
    for one in (broker, other):
        await sweep(one)
    assert sorted(await drain(other, "dead")) == [b"1", b"2"]


@both_places
async def test_two_subscriptions_made_at_once_on_one_topic(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_topic("t")
    await broker.publish("t", b"before")
    await meanwhile(
        rig, broker, place, broker.create_subscription("s1", "t"), other.create_subscription("s2", "t", order="topic")
    )
    await broker.publish("t", b"after")
    for name in ("s1", "s2"):
        assert await drain(other, name) == [b"after"]


@both_places
async def test_a_release_against_a_claim_of_the_same_key(rig: Rig, broker: Broker, other: Broker, place: str) -> None:
    await broker.create_queue("o", order="key")
    await broker.publish("o", [Message(b"1", key="k"), Message(b"2", key="k")])
    await other.claim("o", 1, visibility_timeout=0)
    [held] = await broker.claim("o")
    _, claimed = await meanwhile(rig, broker, place, held.release(), other.claim("o", 1))
    assert not isinstance(claimed, BaseException)
    assert bodies(claimed) in ([], [b"1"])


@both_places
async def test_a_give_back_against_a_claim(rig: Rig, broker: Broker, other: Broker, queue: str, place: str) -> None:
    stop = rig.stop(broker, "before commit")
    leaving = asyncio.create_task(broker.claim(queue, 9))
    await stop.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    second = rig.stop(broker, place)
    stop.release()
    await second.wait()
    claiming = asyncio.create_task(other.claim(queue, 9, wait=10))
    await asyncio.wait([claiming], timeout=0.03)
    second.release()
    assert [(one.body, one.receives) for one in await claiming] == [(b"3", 1), (b"4", 1)]


async def test_a_stop_is_really_inside_the_transaction(rig: Rig, broker: Broker, other: Broker, queue: str) -> None:
    """The rig's own test: while one stands after its lock, the other cannot claim; and afterwards it can."""
    stop = rig.stop(broker, "after lock")
    first = asyncio.create_task(broker.claim(queue))
    await stop.wait()
    second = asyncio.create_task(other.claim(queue))
    await asyncio.wait([second], timeout=0.1)
    assert not second.done()
    stop.release()
    assert bodies(await first) == [b"3"]
    assert bodies(await second) == [b"4"]


async def test_many_verbs_of_three_brokers_at_once_end_without_a_deadlock(
    rig: Rig, broker: Broker, other: Broker
) -> None:
    third = await rig.open()
    for name in ("a", "b", "c"):
        await broker.create_queue(
            name, visibility_timeout=0.01, max_receives=3, dead_letter="a" if name != "a" else "z"
        )
    published = 0

    async def use(one: Broker, turn: int) -> None:
        nonlocal published
        names = ["a", "b", "c"][turn % 3 :] + ["a", "b", "c"][: turn % 3]
        for _ in range(6):
            await asyncio.gather(*(one.publish(name, [b"m"] * 3) for name in names))
            published += 9
            for name in names:
                messages = await one.claim(name, 2)
                with suppress(StaleReceipt):
                    await one.settle(messages[:1])

    async with asyncio.timeout(40):
        await asyncio.gather(*(use(one, turn) for turn, one in enumerate((broker, other, third))))
        await asyncio.gather(*(quiet(one) for one in (broker, other, third)))

    async def counted() -> int:
        return sum([len(await drain(broker, name)) for name in ("a", "b", "c", "z")])

    assert await counted() <= published
    await eventually(lambda: all_empty(broker))


async def all_empty(broker: Broker) -> bool:
    for name in ("a", "b", "c", "z"):
        await drain(broker, name)
    return all([(await broker.depth(name)).total == 0 for name in ("a", "b", "c", "z")])
