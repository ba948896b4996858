"""Hints between processes: LISTEN and NOTIFY, on connections of their own and never in a cycle's transaction.

A hint may be lost: correctness never needs one, and the bounded fallback query finds what a lost one meant.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING

from rowlock.store.faults import StoreFault
from rowlock.store.postgres.connect import connect
from rowlock.store.postgres.guard import call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asyncpg import Connection

CHANNEL = "rowlock"
ALL = "all"
PAYLOAD_BYTES = 7_000
HINT_SECONDS = 2.0
PULSE_SECONDS = 10.0
"""How often a listener makes sure that its connection still answers: a machine that vanished sends nothing."""
SETTINGS = {"synchronous_commit": "off"}


def payload_of(parts: Sequence[int]) -> str:
    payload = ",".join(map(str, parts))
    return payload if len(payload) <= PAYLOAD_BYTES else ALL


def parts_of(payload: str) -> list[int] | None:
    return None if payload == ALL else [int(part) for part in payload.split(",") if part]


class Hinter:
    """Sends hints; one that cannot be sent is dropped."""

    def __init__(self, url: str):
        self._url = url
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()

    async def hint(self, parts: Sequence[int]) -> None:
        with suppress(StoreFault, TimeoutError):
            async with asyncio.timeout(HINT_SECONDS), self._turn:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await connect(self._url, SETTINGS)
                notify = self._connection.execute("select pg_notify($1, $2)", CHANNEL, payload_of(parts))
                await call(self._connection, notify)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


async def listen(url: str, heard: Callable[[Sequence[int] | None], None]) -> None:
    """Call `heard` for every hint, for ever; after a reconnect with None, for what was missed."""
    missed = False
    while True:
        with suppress(StoreFault):
            connection = await connect(url, SETTINGS)
            try:
                await call(connection, connection.add_listener(CHANNEL, lambda *notice: heard(parts_of(notice[3]))))
                if missed:
                    heard(None)
                missed = True
                while True:
                    await asyncio.sleep(PULSE_SECONDS)
                    await call(connection, connection.fetchval("select 1"), seconds=HINT_SECONDS)
            finally:
                connection.terminate()
        await asyncio.sleep(random.uniform(0.1, 0.5))
