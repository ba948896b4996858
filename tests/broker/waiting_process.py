"""A process that waits for messages and says, for each, when it got it: `waiting_process.py URL QUEUE COUNT`."""

from __future__ import annotations

import asyncio
import sys
import time

import rowlock


async def main(url: str, queue: str, count: int) -> None:
    async with rowlock.open(url) as broker:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for _ in range(count):
            while not (messages := await broker.claim(queue, wait=20)):
                pass
            sys.stdout.write(f"{time.time()}\n")
            sys.stdout.flush()
            await broker.settle(messages)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
