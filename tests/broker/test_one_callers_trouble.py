"""One caller's trouble stays its own: a cycle carries many callers' work, and the data of one fails no other's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest

from rowlock import Message
from rowlock.errors import DataRejected, RowlockError

from .poison import POISON, refusing
from .rig import bodies, cycles, drain, eventually, quiet

if TYPE_CHECKING:
    from rowlock import Broker

    from .rig import Rig


@pytest.fixture
async def guarded(store_url: str, broker: Broker) -> AsyncIterator[Broker]:
    """A broker whose database refuses every message with poison in it."""
    await broker.create_queue("q")
    async with refusing(store_url):
        yield broker


async def test_of_many_callers_in_one_cycle_only_the_culprit_fails(guarded: Broker) -> None:
    calls = [guarded.publish("q", POISON if at == 13 else b"%d" % at) for at in range(30)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [at for at, answer in enumerate(answers) if isinstance(answer, BaseException)] == [13]
    assert isinstance(answers[13], DataRejected)
    assert sorted(await drain(guarded, "q"), key=int) == [b"%d" % at for at in range(30) if at != 13]


async def test_several_culprits_are_all_found(guarded: Broker) -> None:
    bad = {0, 3, 4, 17, 31}
    calls = [guarded.publish("q", POISON if at in bad else b"%d" % at) for at in range(32)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert {at for at, answer in enumerate(answers) if isinstance(answer, DataRejected)} == bad
    assert len(await drain(guarded, "q")) == 27


async def test_a_callers_batch_with_poison_is_refused_whole_and_nothing_of_it_is_stored(guarded: Broker) -> None:
    with pytest.raises(RowlockError, match="data"):
        await guarded.publish("q", [b"1", POISON, b"2"])
    assert await guarded.claim("q", 9) == []


async def test_claims_and_settles_of_the_same_cycle_succeed_once_and_at_once(guarded: Broker) -> None:
    await guarded.publish("q", [b"%d" % at for at in range(10)])
    held = await guarded.claim("q", 4)
    poison, claimed, settled = await asyncio.gather(
        guarded.publish("q", POISON), guarded.claim("q", 3), guarded.settle(held), return_exceptions=True
    )
    assert isinstance(poison, DataRejected)
    assert not isinstance(claimed, BaseException)
    assert bodies(claimed) == [b"4", b"5", b"6"]
    assert [one.receives for one in claimed] == [1, 1, 1]
    assert settled is None
    assert bodies(await guarded.claim("q", 9)) == [b"7", b"8", b"9"]


async def test_sequences_stay_dense_and_nobody_gets_the_refused_message(guarded: Broker, other: Broker) -> None:
    waiter = asyncio.create_task(guarded.claim("q", 9, wait=10))
    await asyncio.gather(guarded.publish("q", POISON), guarded.publish("q", b"good"), return_exceptions=True)
    assert bodies(await waiter) == [b"good"]
    [after] = await other.publish("q", b"after")
    assert after.sequence == 2


async def test_the_broker_goes_on_after_it(guarded: Broker, other: Broker) -> None:
    for _ in range(3):
        with pytest.raises(DataRejected):
            await guarded.publish("q", POISON)
        await guarded.publish("q", b"m")
        await other.publish("q", b"m")
    assert len(await drain(other, "q")) == 6


async def test_a_work_whose_decision_breaks_fails_alone(guarded: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    from rowlock.broker.publish import Publish

    decide: Callable[..., object] = Publish.decide

    def breaks(work: Publish, draft: object) -> object:
        result = decide(work, draft)
        if any(b"bug" in placed.bodies for _, placed, _ in work._placed):
            raise ZeroDivisionError
        return result

    monkeypatch.setattr(Publish, "decide", breaks)
    answers = await asyncio.gather(
        *(guarded.publish("q", body) for body in (b"1", b"bug", b"2")), return_exceptions=True
    )
    assert [isinstance(answer, BaseException) for answer in answers] == [False, True, False]
    assert isinstance(answers[1], RowlockError)
    assert sorted(await drain(guarded, "q")) == [b"1", b"2"]


# Callers that leave


async def test_a_publisher_that_leaves_before_its_cycle_stores_nothing_and_disturbs_nobody(
    rig: Rig, broker: Broker
) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"0")
    stop = rig.stop(broker, "before commit")
    first = asyncio.create_task(broker.publish("q", b"1"))
    await stop.wait()
    leaving = asyncio.create_task(broker.publish("q", b"2"))
    staying = asyncio.create_task(broker.publish("q", b"3"))
    [cycle] = cycles(broker)
    await eventually(lambda: waiting_works(cycle, 2))
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    stop.release()
    await asyncio.gather(first, staying)
    assert await drain(broker, "q") == [b"0", b"1", b"3"]


async def waiting_works(cycle: object, count: int) -> bool:
    return len(cycle._inbox) == count  # type: ignore[attr-defined]


async def test_a_publisher_that_leaves_during_commit_disturbs_nobody(rig: Rig, broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", b"0")
    stop = rig.stop(broker, "before commit")
    leaving, staying = (asyncio.create_task(broker.publish("q", body)) for body in (b"1", b"2"))
    await stop.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    stop.release()
    await staying
    assert set(await drain(other, "q")) >= {b"0", b"2"}


async def test_a_claimer_that_leaves_does_not_take_from_those_of_its_cycle(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"1", b"2", b"3"])
    stop = rig.stop(broker, "before commit")
    leaving, staying = (asyncio.create_task(broker.claim("q")) for _ in range(2))
    await stop.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    stop.release()
    assert bodies(await staying) == [b"2"]
    await quiet(broker)
    assert [(one.body, one.receives) for one in await broker.claim("q", 9)] == [(b"1", 1), (b"3", 1)]


async def test_a_settler_that_leaves_has_settled_or_not_and_disturbs_nobody(rig: Rig, broker: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [b"1", b"2"])
    one, two = await broker.claim("q", 2)
    stop = rig.stop(broker, "before commit")
    leaving, staying = asyncio.create_task(one.settle()), asyncio.create_task(two.settle())
    await stop.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    stop.release()
    await staying
    await rig.advance(31)
    assert b"2" not in bodies(await broker.claim("q", 9))


async def test_many_callers_that_leave_at_random_lose_and_double_nothing(broker: Broker, other: Broker) -> None:
    await broker.create_queue("q")
    await broker.publish("q", [Message(b"%d" % at) for at in range(100)])
    tasks = [asyncio.create_task((broker, other)[at % 2].claim("q", 3)) for at in range(40)]
    for at, task in enumerate(tasks):
        if at % 3 == 0:
            await asyncio.sleep(0)
            task.cancel()
    claims = await asyncio.gather(*tasks, return_exceptions=True)
    found = [one for claimed in claims if not isinstance(claimed, BaseException) for one in claimed]

    async def all_found() -> bool:
        found.extend(await broker.claim("q", 100))
        return len(found) >= 100

    await eventually(all_found)
    assert sorted(int(one.body) for one in found) == list(range(100))
    assert all(one.receives == 1 for one in found)
