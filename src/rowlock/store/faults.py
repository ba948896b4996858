"""What a database can do to a transaction, in six classes; each dialect maps its driver's errors to them in one table.

Each is also one of the errors that callers see, for the few places where nobody stands in between to try again.
"""

from __future__ import annotations

from rowlock.errors import DataRejected, Defect, DurabilityUnavailable, RowlockError, StorageFull, Unavailable


class StoreFault(RowlockError):
    """A database error, classified."""


class Contended(StoreFault, Unavailable):
    """Lost a lock race, or what was written over had changed: rolled back; try the whole transaction again."""


class Lost(StoreFault, Unavailable):
    """The connection is gone. `committing` says whether COMMIT was sent, so that the outcome is unknown."""

    def __init__(self, message: str, *, committing: bool = False):
        super().__init__(message)
        self.committing = committing


class Full(StoreFault, StorageFull):
    """The database is full or cannot write; rolled back."""


class Rejected(StoreFault, DataRejected):
    """The database refused some caller's data; rolled back."""


class Misuse(StoreFault, Defect):
    """A statement that can never work: a defect of ours; rolled back where possible."""


class NotReplicated(StoreFault, DurabilityUnavailable):
    """Replicated durability is asked for, and no synchronous standby is streaming."""
