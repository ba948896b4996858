"""The one table from SQLite's result codes to the classes of `store.faults`."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowlock.store.faults import Contended, Full, Lost, Misuse, Rejected, StoreFault

if TYPE_CHECKING:
    from collections.abc import Iterator

FAULTS: dict[int, type[StoreFault]] = {
    sqlite3.SQLITE_BUSY: Contended,
    sqlite3.SQLITE_LOCKED: Contended,
    sqlite3.SQLITE_PROTOCOL: Contended,
    sqlite3.SQLITE_CANTOPEN: Lost,
    sqlite3.SQLITE_FULL: Full,
    sqlite3.SQLITE_IOERR: Full,
    sqlite3.SQLITE_READONLY: Full,
    sqlite3.SQLITE_PERM: Full,
    sqlite3.SQLITE_CORRUPT: Full,
    sqlite3.SQLITE_NOTADB: Full,
    sqlite3.SQLITE_NOMEM: Full,
    sqlite3.SQLITE_CONSTRAINT: Rejected,
    sqlite3.SQLITE_MISMATCH: Rejected,
    sqlite3.SQLITE_TOOBIG: Rejected,
}
"""By primary result code; every other code is a statement that can never work."""

DRIVER_ERRORS = (sqlite3.Error, UnicodeError, OverflowError)
"""Text that is not UTF-8 and numbers over 63 bits are refused by Python's driver before SQLite sees them."""

KEYS = (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE)
"""No caller chooses a key of ours: who finds one taken has decided from what is no longer so."""

PRIMARY_CODE = 0xFF


def fault(error: Exception, *, committing: bool = False) -> StoreFault:
    """The fault that a driver's error stands for."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        kind: type[StoreFault] = Misuse if isinstance(error, sqlite3.Error) else Rejected
        return kind(str(error))
    if code in KEYS:
        return Contended(str(error))
    primary = code & PRIMARY_CODE
    if committing and primary == sqlite3.SQLITE_IOERR:
        # A flush that fails after the commit record was written: the next process to recover the file may find it.
        return Lost(str(error), committing=True)
    return FAULTS.get(primary, Misuse)(str(error))


@contextmanager
def classified(*, committing: bool = False) -> Iterator[None]:
    """Turns what the driver raises into faults."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise fault(error, committing=committing) from error
