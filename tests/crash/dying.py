"""Broker processes that kill themselves in the middle of a verb: to be imported by them before they begin.

A process lives for a little while under load, then dies in the first cycle that carries its verb: before the database
was asked, while it was asked, or after it committed and before anybody was told. Its next life dies in another verb.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import msgspec

from rowlock.broker.cycle import Cycle
from rowlock.broker.draft import Draft
from rowlock.broker.work import Work
from rowlock.simulate import records
from rowlock.simulate.host import Spec
from rowlock.store.port import Lane

VERBS = ("publish", "claim", "settle")
MOMENTS = ("before", "during", "after")
LIFE_SECONDS = 0.6

_spec = msgspec.json.decode(sys.argv[1], type=Spec)
_turn = _spec.number + _spec.life
_verb, _moment = VERBS[_turn % 3], MOMENTS[(_turn + _turn // 3) % 3]
_dies_at = time.monotonic() + LIFE_SECONDS * random.uniform(0.5, 1.5)
_carry, _finish = Cycle._carry, Cycle._finish


def _is_time(works: list[Work]) -> bool:
    return not _spec.ending and time.monotonic() > _dies_at and any(work.verb == _verb for work in works)


def _die() -> NoReturn:
    path = Path(_spec.directory) / f"deaths-{_spec.number}.{_spec.life}{records.SUFFIX}"
    records.Recorder(path).write(records.Happened(records.now(), f"died {_moment} {_verb}"))
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def _carry_and_die(self: Cycle, lane: Lane, works: list[Work]) -> None:
    if _is_time(works) and _moment == "before":
        _die()
    if _is_time(works) and _moment == "during":
        asyncio.get_running_loop().call_later(random.uniform(0, 0.003), _die)
    await _carry(self, lane, works)


def _finish_and_die(self: Cycle, draft: Draft, works: list[Work], results: list[object]) -> None:
    if _is_time(works) and _moment == "after":
        _die()
    _finish(self, draft, works, results)


Cycle._carry = _carry_and_die  # type: ignore[method-assign]
Cycle._finish = _finish_and_die  # type: ignore[method-assign]
