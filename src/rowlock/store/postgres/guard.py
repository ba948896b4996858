"""What stands around every call to the server: a deadline that drops the socket, and errors turned into faults.

asyncpg asks the server to cancel when a call's task is cancelled or its own timeout runs out. A cancelled COMMIT that
waits for its standby is committed and visible, and vanishes in a failover. So calls here have no timeout of the
driver's: a deadline, and a cancelled task, drop the socket.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Self, TypeVar

from rowlock import limits
from rowlock.store.postgres.errors import fault_of

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import TracebackType

    from asyncpg import Connection

T = TypeVar("T")


class Guard:
    """`with guard(committing=True): ...` around each call on one connection.

    One timer serves all calls, because a timer, a task or a coroutine of its own for each would cost a lone caller
    several percent.
    """

    def __init__(self, connection: Connection, seconds: float | None = None):
        self._connection = connection
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._until = inf
        self._committing = False

    def __call__(self, *, committing: bool = False) -> Self:
        self._committing = committing
        return self

    def __enter__(self) -> None:
        seconds = limits.CYCLE_DEADLINE_SECONDS if self._seconds is None else self._seconds
        self._until = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._until:
            self._arm(self._until)

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        self._until = inf
        if isinstance(error, asyncio.CancelledError):
            # At once: the driver's request to cancel is a task that has not begun, and ends with the connection.
            self._connection.terminate()
        elif isinstance(error, Exception):
            raise fault_of(error, committing=self._committing) from error

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, when: float) -> None:
        self.close()
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._loop.time() >= self._until:
            self._connection.terminate()
        elif self._until < inf:
            self._arm(self._until)


async def call(
    connection: Connection, awaitable: Awaitable[T], *, committing: bool = False, seconds: float | None = None
) -> T:
    """Await one call, with a guard of its own (the cycle's deadline, unless told)."""
    guard = Guard(connection, seconds)
    try:
        with guard(committing=committing):
            return await awaitable
    finally:
        guard.close()
