"""A process that publishes one message, and stops itself (SIGSTOP) between its lock and its commit: `... URL QUEUE`.

It says `published` once the publish has returned.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import rowlock
from rowlock.store.port import Changes

from .rig import Rig


async def main(url: str, queue: str) -> None:
    rig = Rig(url)
    broker = await rig.open()
    await broker.publish(queue, b"first")
    rig.stage(broker).always_lock = True
    cycle = next(iter(broker._engine.cycles.values()))
    lane = cycle._lane
    assert lane is not None
    write = lane.write

    async def stop_and_write(changes: Changes) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        await write(changes)

    lane.write = stop_and_write  # type: ignore[method-assign]
    [published] = await broker.publish(queue, rowlock.Message(b"stopped", deduplication_id=None))
    sys.stdout.write(f"published {published.id}\n")
    sys.stdout.flush()
    await rig.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
