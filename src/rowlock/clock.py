"""Time has one source: the database's clock, carried between answers by this process's monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime


class DatabaseClock:
    """The database's time in milliseconds, from the offset that its last answer showed."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic):
        self._monotonic = monotonic
        self._offset: float | None = None

    @property
    def is_set(self) -> bool:
        return self._offset is not None

    def heard(self, database_ms: int) -> None:
        """An answer said what time it is there; it is that late now, or a little later."""
        self._offset = database_ms - self._monotonic() * 1000

    def now(self) -> int:
        assert self._offset is not None, "No answer of the database has been heard yet."
        return int(self._monotonic() * 1000 + self._offset)


def moment(milliseconds: int) -> datetime:
    """A stored time as people's programs have it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
