"""Waiters: claims that found nothing and wait for something to come.

Nobody polls for a single waiter. A waiter is woken by a publish of this process (and then shares its cycle), by a hint
from another process, by a message that becomes visible again, or by the one bounded query that asks for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rowlock import limits
from rowlock.errors import TooManyWaiters
from rowlock.model import Claimed

Make = Callable[[int], "Any | None"]
"""A claim for one partition's channel, as work to submit."""


class Waiter:
    """One waiting claim."""

    def __init__(self, sub: int, make: Make, give_back: Callable[[list[Claimed]], None], channels: dict[int, Any]):
        self.sub = sub
        self.make = make
        self.give_back = give_back
        self.channels = channels
        """The partitions that it waits for, each with its channel."""
        self.trying = False
        """A claim of it is under way."""
        self.again: dict[int, None] = {}
        """Partitions in which something may have come since."""
        self.closed = False
        self.future: asyncio.Future[list[Claimed]] = asyncio.get_running_loop().create_future()


class Waiters:
    """All waiting claims of one process, by subscription and by partition."""

    def __init__(self, submit: Callable[[Any], None]):
        self._submit = submit
        self._by_sub: dict[int, dict[Waiter, None]] = {}
        self._by_part: dict[int, dict[int, int]] = {}
        """Partition -> subscriptions that wait for it -> how many waiters."""
        self.count = 0

    def cursors(self) -> list[tuple[int, int]]:
        """Every (partition, subscription) that somebody waits for."""
        return sorted((part, sub) for part, subs in self._by_part.items() for sub in subs)

    def channel(self, cursor: tuple[int, int]) -> Any | None:
        """The channel of a partition that somebody waits for."""
        for waiter in self._by_sub.get(cursor[1], ()):
            return waiter.channels.get(cursor[0])
        return None

    def subs_of(self, part: int) -> list[int]:
        return list(self._by_part.get(part, ()))

    async def wait(self, waiter: Waiter, seconds: float, first: list[int]) -> list[Claimed]:
        """What the waiter gets within that time; nothing, when nothing came. It tries these partitions at once: it is
        parked before it looks, so that nothing can come unnoticed in between."""
        if self.count >= limits.WAITERS_PER_PROCESS_COUNT:
            raise TooManyWaiters(f"{self.count} claims are waiting in this process, which is the limit.")
        self._park(waiter)
        waiter.again = dict.fromkeys(first)
        self._try_again(waiter)
        try:
            await asyncio.wait((waiter.future,), timeout=seconds)
        except asyncio.CancelledError:
            if waiter.future.done() and waiter.future.exception() is None:
                waiter.give_back(waiter.future.result())
            raise
        finally:
            waiter.closed = True
            self._leave(waiter)
        return waiter.future.result() if waiter.future.done() else []

    def wake(self, part: int, sub: int, most: int = 1) -> None:
        """Something may have come in this partition: let so many of the subscription's waiters try."""
        for work in self.trying(part, sub, most):
            self._submit(work)

    def trying(self, part: int, sub: int, most: int) -> list[Any]:
        """Claims of up to so many waiters of the subscription, the longest waiting first."""
        works: list[Any] = []
        for waiter in self._by_sub.get(sub, ()):
            if len(works) == most:
                break
            if waiter.trying:
                waiter.again[part] = None
                continue
            work = waiter.make(part)
            if work is not None:
                self._try(waiter, work)
                works.append(work)
        return works

    def _try(self, waiter: Waiter, work: Any) -> None:
        waiter.trying = True
        work.future.add_done_callback(lambda future: self._tried(waiter, future))

    def _tried(self, waiter: Waiter, future: asyncio.Future[list[Claimed]]) -> None:
        waiter.trying = False
        if future.cancelled():
            return
        error = future.exception()
        if waiter.closed or waiter.future.done():
            if error is None and future.result():
                waiter.give_back(future.result())
        elif error is not None:
            waiter.future.set_exception(error)
        elif future.result():
            waiter.future.set_result(future.result())
        else:
            self._try_again(waiter)

    def _try_again(self, waiter: Waiter) -> None:
        while waiter.again and not waiter.trying:
            part = next(iter(waiter.again))
            del waiter.again[part]
            work = waiter.make(part)
            if work is not None:
                self._try(waiter, work)
                self._submit(work)

    def _park(self, waiter: Waiter) -> None:
        self.count += 1
        self._by_sub.setdefault(waiter.sub, {})[waiter] = None
        for part in waiter.channels:
            subs = self._by_part.setdefault(part, {})
            subs[waiter.sub] = subs.get(waiter.sub, 0) + 1

    def _leave(self, waiter: Waiter) -> None:
        self.count -= 1
        mine = self._by_sub[waiter.sub]
        del mine[waiter]
        if not mine:
            del self._by_sub[waiter.sub]
        for part in waiter.channels:
            subs = self._by_part[part]
            subs[waiter.sub] -= 1
            if not subs[waiter.sub]:
                del subs[waiter.sub]
            if not subs:
                del self._by_part[part]
