"""Losing the connection again and again: callers are told in time, and nothing is tried in a hurry for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowlock.errors import Unavailable
from rowlock.store.faults import Lost

from .rig import Stop, drain

if TYPE_CHECKING:
    from rowlock.store.port import Lane

    from .rig import Rig


async def test_callers_are_told_when_every_transaction_loses_its_connection(rig: Rig) -> None:
    """Connecting succeeds each time, so that only the transactions show that the database is of no use."""
    broker = await rig.open(patience=0.5)
    await broker.create_queue("q")
    stage = rig.stage(broker)
    stage.always_lock = True
    tries = 0

    async def lose(_: Lane) -> None:
        nonlocal tries
        tries += 1
        stage.stops.append(Stop("before lock", lose))
        raise Lost("the server closed the connection")

    stage.stops.append(Stop("before lock", lose))
    publishing = [asyncio.create_task(broker.publish("q", b"lost")) for _ in range(5)]
    done, _ = await asyncio.wait(publishing, timeout=10)
    stage.stops.clear()
    outcomes = await asyncio.gather(*publishing, return_exceptions=True)
    assert len(done) == 5
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes), outcomes
    assert 1 < tries < 40
    await broker.publish("q", b"stored")
    assert await drain(broker, "q") == [b"stored"]
