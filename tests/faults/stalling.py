"""A broker's process that stops itself (SIGSTOP) while it holds its locks, once; run with an address and a verb.

When somebody continues it, it does what it was about to do, prints it as JSON, and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import rowlock

if TYPE_CHECKING:
    from rowlock import Broker
    from rowlock.store.port import Lane, Scope, View


def stop_after_lock(lane: Lane) -> None:
    lock = lane.lock

    async def stopping(scope: Scope) -> View:
        view = await lock(scope)
        lane.lock = lock  # type: ignore[method-assign]
        os.kill(os.getpid(), signal.SIGSTOP)
        return view

    lane.lock = stopping  # type: ignore[method-assign]


async def run(url: str, verb: str) -> list[str]:
    async with rowlock.open(url, owner="tester") as broker:
        connect = broker._engine.store.lane
        made: list[Lane] = []

        async def connecting(*wanted: Any) -> Lane:
            lane = await connect(*wanted)
            if not made and asyncio.current_task().get_name() == "rowlock cycle":  # type: ignore[union-attr]
                made.append(lane)
                stop_after_lock(lane)
            return lane

        broker._engine.store.lane = connecting  # type: ignore[method-assign, assignment]
        return await do(broker, verb)


async def do(broker: Broker, verb: str) -> list[str]:
    if verb == "publish":
        return [one.id for one in await broker.publish("q", [b"stalled 1", b"stalled 2"])]
    return [message.body.decode() for message in await broker.claim("q", 10, visibility_timeout=600)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(run(*sys.argv[1:]))))
