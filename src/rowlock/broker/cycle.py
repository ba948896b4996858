"""The cycle: one transaction that carries all that was waiting in one channel, of all queues.

While one transaction commits, whatever arrives is the next batch; there is no timer. A cycle is decided from what is
remembered and sent as compare-and-write in one round trip; where that disagrees, or the store has no such call, it is
decided under lock. What is remembered changes only after COMMIT, and callers are answered last.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from rowlock import limits
from rowlock.broker.draft import Draft
from rowlock.broker.fetch import absorb, fetch, scope_of, survey
from rowlock.broker.memory import Memory
from rowlock.broker.work import Channel, Outdated, Work
from rowlock.broker.writer import Writer
from rowlock.clock import DatabaseClock
from rowlock.errors import (
    Closed,
    DataRejected,
    Defect,
    DurabilityUnavailable,
    OutcomeUnknown,
    RowlockError,
    ServerTooOld,
    ServerUnsafe,
    StorageFull,
    Unavailable,
)
from rowlock.store.faults import Contended, Full, Lost, Misuse, NotReplicated, Rejected, StoreFault
from rowlock.store.port import Cursor, Lane

log = logging.getLogger("rowlock.cycle")

AGAIN = object()
"""What a work's decision returns to be carried by the next cycle as well, after what it changed is committed."""

WRITER_TRIES = 3
"""So often a transaction may be contended before its writer's row is taken to be gone (it is cleared away after a
day)."""

CONTENDED_TURNS = 64
"""After a comparison failed because of another broker, so many cycles are decided under lock."""


LONGEST_PAUSE_SECONDS = 0.5
"""Between two tries to reach a database that went away."""

UNFIT = (ServerTooOld, ServerUnsafe)
"""Waiting does not help."""


LOSSES_IN_A_ROW = 4
"""After so many lost connections without a commit in between, the works are divided."""


class Refusal:
    """A decision to refuse: it changes nothing, and the caller gets the error."""

    def __init__(self, error: RowlockError):
        self.error = error


class Watcher(Protocol):
    """Who wants to know what cycles did, and may add waiting claims to a cycle."""

    def joining(self, cycle: Cycle, appended: dict[int, int]) -> list[Work]:
        """Claims that wait for messages of these partitions (with how many come), to share the cycle that appends
        them."""

    def carried(self, cycle: Cycle, draft: Draft) -> None:
        """A cycle was committed."""


class Counters:
    """What a channel has done, for metrics."""

    def __init__(self) -> None:
        self.cycles = 0
        self.works = 0
        self.locked = 0
        self.retried = 0
        self.reconnected = 0
        self.unknown = 0


class Cycle:
    """The loop of one channel, on a connection of its own."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Lane]],
        clock: DatabaseClock,
        watcher: Watcher,
        patience: float,
        channel: Channel,
    ):
        self.channel = channel
        self.memory = Memory()
        self.counters = Counters()
        self._connect = connect
        self._clock = clock
        self._watcher = watcher
        self._patience = patience
        self._writer = Writer()
        self._lane: Lane | None = None
        self._inbox: deque[Work] = deque()
        self._wake = asyncio.Event()
        self._contended = 0
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self.trouble: str | None = None
        """Why the database cannot be reached or written at the moment."""

    # The outside

    def submit(self, work: Work) -> None:
        if self._closing:
            work.fail(Closed("The broker was closed."))
            return
        self._inbox.append(work)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rowlock cycle")

    async def close(self) -> None:
        """Carry what has been submitted, then stop."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        if self._lane is not None:
            await self._lane.close()

    async def abort(self) -> None:
        """Stop at once, as if the process had died: for tests."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
        if self._lane is not None:
            await self._lane.close()

    # The loop

    async def _run(self) -> None:
        while True:
            if not self._inbox:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            if self._lane is None or not self._lane.compares:
                await asyncio.sleep(0)  # a store that never suspends (SQLite) must let others in, or there is no batch
            works = self._batch()
            try:
                await self._carry_until_done(works)
            except Exception as error:
                log.exception("A cycle failed in a way that it should not.")
                await self._lose()
                for work in works:
                    work.fail(error if isinstance(error, RowlockError) else Defect(f"A cycle failed: {error!r}"))

    def _batch(self) -> list[Work]:
        """The works of the next cycle, within its bounds; those that append first, those that claim last."""
        works: list[Work] = []
        messages = size = 0
        while self._inbox:
            work = self._inbox[0]
            messages, size = messages + work.messages, size + work.bytes
            if works and (
                messages > limits.CYCLE_MESSAGES or size > limits.CYCLE_BYTES or len(works) == limits.CYCLE_WORKS
            ):
                break
            works.append(self._inbox.popleft())
        if len(works) > 1:
            works.sort(key=_rank)
        appended: dict[int, int] = {}
        for work in works:
            if work.grows:
                appended |= {part: appended.get(part, 0) + work.messages for part in work.parts}
        if appended:
            works += self._watcher.joining(self, appended)
        return works

    async def _carry_until_done(self, works: list[Work]) -> None:
        """Carry the works through whatever the database does, or tell each of them why not."""
        waiting: deque[list[Work]] = deque([works])
        tries = losses = 0
        while waiting:
            works = [work for work in waiting.popleft() if not work.future.done()]
            if not works:
                continue
            try:
                lane = await self._connected(works)
                if lane is None:
                    continue
                await self._carry(lane, works)
                tries = losses = 0
            except Contended as fault:
                tries += 1
                self.counters.retried += 1
                if tries == WRITER_TRIES:
                    self._writer.reset()
                if tries > limits.RETRY_COUNT:
                    _fail_all(works, Unavailable(f"Nothing was stored: refused by the database {tries} times: {fault}"))
                else:
                    self._give_up(works, fault)
                    await asyncio.sleep(random.uniform(0, 0.002 * min(tries, 10)))
                    waiting.appendleft(works)
            except Lost as fault:
                losses += 1
                waiting.extendleft(reversed(await self._after_loss(works, fault, losses)))
            except _Unanswered:
                continue
            except (Full, Rejected, Misuse, _Broken) as fault:
                waiting.extendleft(reversed(self._refuse(works, fault)))

    async def _after_loss(self, works: list[Work], fault: Lost, losses: int) -> list[list[Work]]:
        """The connection was lost before anything was committed: what to try again. Where that goes on, callers are
        told in time; and one of them may be the reason, so that the others are tried without it."""
        log.warning("The connection to the database was lost: %s", fault)
        await self._lose()
        if losses > 1:
            self._give_up(works, fault)
            await asyncio.sleep(min(0.02 * 2**losses, 0.5) * random.uniform(0.5, 1))
        if losses < LOSSES_IN_A_ROW or len(works) == 1:
            return [works]
        middle = len(works) // 2
        return [works[:middle], works[middle:]]

    def _refuse(self, works: list[Work], fault: Exception) -> list[list[Work]]:
        """The transaction can not be made. Tell whose fault it is, and return what is to be tried without them."""
        if isinstance(fault, Full):
            self.trouble = f"The database cannot store any more: {fault}"
            growing = [work for work in works if work.grows]
            _fail_all(growing or works, StorageFull(self.trouble))
            return [[work for work in works if not work.grows]] if growing else []
        if isinstance(fault, Misuse):
            log.error("The database refused a statement: %s", fault)
        if len(works) == 1:
            works[0].fail(_as_error(fault))
            return []
        middle = len(works) // 2
        return [works[:middle], works[middle:]]

    # One transaction

    async def _carry(self, lane: Lane, works: list[Work]) -> None:
        draft = Draft(self.memory, self._writer.turn(), self._clock.now())
        checked = await survey(lane, draft, works)
        compares = lane.compares and not self._contended
        if checked is not None and (compares or all(checked.idle(work) for work in works)):
            results = await self._decide(lane, draft, works, in_transaction=False)
            nothing_to_do = draft.is_empty and checked.verified.issuperset(draft.cursors)
            if nothing_to_do or (compares and await self._attempt(lane, draft, works)):
                self._finish(draft, works, results)
                return
            if not compares:
                draft.undo()
        self._contended = max(0, self._contended - 1)
        await self._carry_locked(lane, works)

    async def _attempt(self, lane: Lane, draft: Draft, works: list[Work]) -> bool:
        """Send the draft as compare-and-write."""
        versions, part_versions = _versions(works)
        changes = draft.finish(versions, part_versions)
        changes.unseen = [key for work in works for key in work.deduplication_keys()]
        try:
            attempt = await lane.attempt(changes)
        except BaseException as fault:
            draft.undo()
            if isinstance(fault, Lost) and fault.committing:
                return await self._find_out(draft, works)
            raise
        self._clock.heard(attempt.clock)
        if attempt.agreed:
            self._writer.taken(draft.turn)
            draft.committed()
        else:
            draft.undo()
            if not changes.unseen and abs(attempt.clock - changes.decided_at) <= limits.CYCLE_CLOCK_MS:
                self._contended = CONTENDED_TURNS
        return attempt.agreed

    async def _carry_locked(self, lane: Lane, works: list[Work]) -> None:
        """Decide under lock, against what is there."""
        self.counters.locked += 1
        draft: Draft | None = None
        try:
            view = await lane.lock(scope_of(self.memory, works))
            self._clock.heard(view.clock)
            works = await absorb(lane, self.memory, view, works)
            draft = Draft(self.memory, self._writer.turn(), view.clock)
            results = await self._decide(lane, draft, works, in_transaction=True)
            if draft.is_empty:
                await lane.rollback()
                draft.undo()
            else:
                await lane.write(draft.finish(*_versions(works)))
                self._writer.taken(draft.turn)
                draft.committed()
        except BaseException as fault:
            if draft is not None:
                draft.undo()
            if isinstance(fault, Lost):
                if fault.committing and draft is not None and await self._find_out(draft, works):
                    self._finish(draft, works, results)
                    return
            else:
                await lane.rollback()
            raise
        self._finish(draft, works, results)

    async def _decide(self, lane: Lane, draft: Draft, works: list[Work], *, in_transaction: bool) -> list[Any]:
        """Read what the decisions need, and decide. A work that breaks is found by dividing."""
        if in_transaction:
            keys = [key for work in works for key in work.deduplication_keys()]
            for found in await lane.duplicates(keys) if keys else ():
                draft.saw(found)
            for work in works:
                if work.needs_lock:
                    await work.read(lane, draft)
        try:
            await fetch(lane, draft, works)
            return [work.decide(draft) for work in works]
        except BaseException as fault:
            draft.undo()
            if isinstance(fault, Exception) and not isinstance(fault, StoreFault):
                raise _Broken(fault) from fault
            raise

    def _finish(self, draft: Draft, works: list[Work], results: list[Any]) -> None:
        """It was committed: answer everybody."""
        self.trouble = None
        self.counters.cycles += 1
        self.counters.works += len(works)
        try:
            self._watcher.carried(self, draft)
        except Exception:
            # It is stored: nobody may be told otherwise because somebody else could not be woken.
            log.exception("What follows a commit failed in a way that it should not.")
        again: list[Work] = []
        for work, result in zip(works, results, strict=True):
            if result is AGAIN:
                again.append(work)
            elif isinstance(result, Refusal):
                work.fail(result.error)
            else:
                work.answer(result)
        if again:
            self._inbox.extendleft(reversed(again))
            self._wake.set()
        for cursor in draft.distrusted:
            self.memory.forget(cursor)
        self.memory.shrink(set(draft.cursors))

    # Trouble

    async def _find_out(self, draft: Draft, works: list[Work]) -> bool:
        """COMMIT was sent and no answer came: whether it took effect. It never will, once this returned False."""
        self.counters.unknown += 1
        await self._lose()
        while True:
            lane = await self._connected(works, unknown=True)
            if lane is None:
                raise _Unanswered
            try:
                committed = await lane.fence(draft.turn)
            except StoreFault as fault:
                self.trouble = f"The outcome of a commit is still unknown: {fault}"
                log.warning("%s", self.trouble)
                await self._lose()
                if self._give_up(works, fault, unknown=True):
                    raise _Unanswered from fault
                await asyncio.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))
                continue
            self._writer.reset()
            return committed

    async def _connected(self, works: list[Work], *, unknown: bool = False) -> Lane | None:
        """The lane's connection, made anew where it was lost; None when the patience of all these works is over."""
        pause = 0.02
        while self._lane is None:
            try:
                self._lane = await self._connect()
                self._clock.heard(await self._lane.clock())
                self.trouble = None
            except (StoreFault, RowlockError) as fault:
                self.trouble = str(fault)
                await self._lose()
                if isinstance(fault, UNFIT) and not unknown:
                    _fail_all(works, fault)
                if self._give_up(works, fault, unknown=unknown):
                    return None
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        return self._lane

    def _give_up(self, works: list[Work], fault: Exception, *, unknown: bool = False) -> bool:
        """Tell those that have waited too long; whether nobody is left."""
        now = time.monotonic()
        for work in [*works, *self._inbox]:
            if now - work.since > self._patience or self._closing:
                work.fail(_unreachable(fault, unknown=unknown and work in works))
        while self._inbox and self._inbox[0].future.done():
            self._inbox.popleft()
        return all(work.future.done() for work in works)

    async def _lose(self) -> None:
        """Drop the connection, and everything that was remembered through it."""
        self.counters.reconnected += 1
        self.memory.clear()
        lane, self._lane = self._lane, None
        if lane is not None:
            await lane.close()


class _Broken(Exception):
    """A work's decision raised something."""


class _Unanswered(Exception):
    """The outcome could not be found out, and all callers were told."""


def _rank(work: Work) -> int:
    return work.rank


def _versions(works: list[Work]) -> tuple[dict[Cursor, int], dict[int, int]]:
    versions = {cursor: place.version for work in works for cursor, place in work.places.items()}
    part_versions = {part: version for work in works for part, version in work.parts.items()}
    return versions, part_versions


def _fail_all(works: list[Work], error: RowlockError) -> None:
    for work in works:
        work.fail(error)


def _as_error(fault: Exception) -> BaseException:
    """What the caller of a culprit gets."""
    if isinstance(fault, _Broken):
        cause = fault.__cause__
        assert cause is not None
        if isinstance(cause, (RowlockError, Outdated)):
            return cause
        defect = Defect(f"A decision failed: {cause!r}")
        defect.__cause__ = cause
        return defect
    if isinstance(fault, Misuse):
        return Defect(f"The database refused a statement of Rowlock's: {fault}")
    return DataRejected(f"The database refused this request's data: {fault}")


def _unreachable(fault: Exception, *, unknown: bool) -> RowlockError:
    if unknown:
        return OutcomeUnknown(
            f"The change may have been stored: the database went away during COMMIT, and then: {fault}"
        )
    if isinstance(fault, NotReplicated):
        return DurabilityUnavailable(f"Nothing was stored: {fault}")
    if isinstance(fault, Contended):
        return Unavailable(f"Nothing was stored: the database refused the transaction for too long: {fault}")
    return Unavailable(f"Nothing was stored: the database could not be reached: {fault}")
