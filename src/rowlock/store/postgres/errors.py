"""PostgreSQL's and the driver's errors as faults of the port: one table by SQLSTATE, exact codes before classes."""

from __future__ import annotations

import asyncpg

from rowlock.store.faults import Contended, Full, Lost, Misuse, Rejected, StoreFault

CHANGED = "RL001"
"""Raised by our own functions: what was to be replaced had changed."""

BY_SQLSTATE: dict[str, type[StoreFault]] = {
    CHANGED: Contended,
    "23505": Contended,  # only our own keys are unique: another transaction was quicker
    "25006": Lost,  # read-only: a standby after a failover
    "25P03": Lost,  # idle in transaction for too long: the server ended the session
    "25P04": Lost,
    "40003": Lost,
    "53100": Full,
    "53200": Contended,
    "53300": Lost,
    "57014": Contended,  # somebody else cancelled the statement; it was rolled back
    "XX001": Full,
    "XX002": Full,
}

BY_CLASS: dict[str, type[StoreFault]] = {
    "00": Misuse,
    "01": Misuse,
    "02": Misuse,
    "03": Misuse,
    "08": Lost,
    "09": Misuse,
    "0A": Misuse,
    "0B": Misuse,
    "0F": Misuse,
    "0L": Misuse,
    "0P": Misuse,
    "0Z": Misuse,
    "10": Rejected,
    "20": Misuse,
    "21": Misuse,
    "22": Rejected,
    "23": Rejected,
    "24": Misuse,
    "25": Misuse,
    "26": Misuse,
    "27": Misuse,
    "28": Lost,  # also while roles are not there yet; `open` tells a wrong password apart
    "2B": Misuse,
    "2D": Misuse,
    "2F": Misuse,
    "34": Misuse,
    "38": Misuse,
    "39": Misuse,
    "3B": Misuse,
    "3D": Lost,
    "3F": Misuse,
    "40": Contended,
    "42": Misuse,
    "44": Rejected,
    "53": Full,
    "54": Rejected,  # a row or a value beyond what the server can store
    "55": Contended,
    "57": Lost,
    "58": Full,
    "72": Contended,
    "F0": Misuse,
    "HV": Misuse,
    "P0": Misuse,
    "XX": Contended,
}


def fault_of(error: Exception, *, committing: bool = False) -> StoreFault:
    """The fault that an error of the server or of the driver is; `committing` says whether COMMIT was on its way."""
    if isinstance(error, StoreFault):
        return error
    text = f"{type(error).__name__}: {error}"
    kind = _kind(error)
    return Lost(text, committing=committing) if kind is Lost else kind(text)


def _kind(error: Exception) -> type[StoreFault]:
    if isinstance(error, asyncpg.PostgresError):
        sqlstate = error.sqlstate or ""
        return BY_SQLSTATE.get(sqlstate) or BY_CLASS.get(sqlstate[:2], Misuse)
    if isinstance(error, asyncpg.DataError | UnicodeError):
        return Rejected  # the driver could not encode a value, and sent nothing
    # Whatever else the driver reports (its own defects included) leaves the connection in a state nobody knows.
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError | OSError | EOFError | TimeoutError):
        return Lost
    return Misuse
