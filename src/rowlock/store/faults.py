"""What a database can do to a transaction, in six classes; each dialect maps its driver's errors to them in one table."""

from __future__ import annotations


class StoreFault(Exception):
    """A database error, classified."""


class Contended(StoreFault):
    """Lost a lock race, or what was written over had changed: rolled back; try the whole transaction again."""


class Lost(StoreFault):
    """The connection is gone. `committing` says whether COMMIT was sent, so that the outcome is unknown."""

    def __init__(self, message: str, *, committing: bool = False):
        super().__init__(message)
        self.committing = committing


class Full(StoreFault):
    """The database is full or cannot write; rolled back."""


class Rejected(StoreFault):
    """The database refused some caller's data; rolled back."""


class Misuse(StoreFault):
    """A statement that can never work: a defect of ours; rolled back where possible."""


class NotReplicated(StoreFault):
    """Replicated durability is asked for, and no synchronous standby is streaming."""
