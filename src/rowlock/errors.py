"""Everything that Rowlock raises, in one tree.

RowlockError
├── Refused                    the request was wrong; nothing was changed
│   ├── InvalidArgument        (also a ValueError) a value is not allowed
│   │   └── MessageTooLarge
│   ├── NotFound               (also a LookupError) no such queue, topic, subscription or task
│   ├── AlreadyExists          it exists with other settings
│   ├── InUse                  what was to be deleted or changed is needed by something else
│   ├── StaleReceipt           the receipt is no longer the holder's
│   ├── InFlightLimit          too many messages are held at once
│   ├── TooManyWaiters
│   └── DataRejected           the database refused this caller's data
├── PublishRefused             some messages of a batch were refused; the others are stored
├── Unavailable                the database could not be reached; nothing was changed
│   ├── StorageFull            the database has no room, or cannot write
│   └── DurabilityUnavailable  replicated durability was asked for and no standby confirms
├── OutcomeUnknown             the connection died in COMMIT and it could not be found out what became of it
├── Closed                     the broker was closed
├── ServerTooOld               the database server lacks what Rowlock needs
├── ServerUnsafe               the database server is set up to lose acknowledged messages
├── SchemaTooNew               the schema was written by a newer Rowlock
└── Defect                     a mistake of Rowlock's own
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowlock.model import Published


class RowlockError(Exception):
    """Something went wrong in Rowlock."""


class Refused(RowlockError):
    """The request was wrong; nothing was changed."""


class InvalidArgument(Refused, ValueError):
    """A value is not allowed."""


class MessageTooLarge(InvalidArgument):
    """Body, attributes and key together are larger than the topic allows."""


class NotFound(Refused, LookupError):
    """There is no queue, topic, subscription or task of that name."""


class AlreadyExists(Refused):
    """It exists already, with other settings."""


class InUse(Refused):
    """Something else still needs it."""


class StaleReceipt(Refused):
    """The receipt is no longer valid: the message was settled, or handed out again, or its hold ran out."""


class InFlightLimit(Refused):
    """The subscription has as many messages in flight as it may have."""


class TooManyWaiters(Refused):
    """This process has as many waiting claims as it may have."""


class DataRejected(Refused):
    """The database refused this request's data."""


class PublishRefused(RowlockError):
    """Some messages of the batch were refused; the others are stored.

    `refused` names them: (index in the batch, error). `published` has an entry per message, None where refused.
    """

    def __init__(self, refused: Sequence[tuple[int, RowlockError]], published: Sequence[Published | None]):
        index, error = refused[0]
        stored = sum(one is not None for one in published)
        super().__init__(
            f"{len(refused)} of {len(published)} messages were refused, {stored} are stored; "
            f"the first refused is number {index}: {error}"
        )
        self.refused = list(refused)
        self.published = list(published)


class Unavailable(RowlockError):
    """The database could not be reached in time; nothing was changed."""


class StorageFull(Unavailable):
    """The database has no room left, or cannot write; nothing was changed."""


class DurabilityUnavailable(Unavailable):
    """The topic's durability is `replicated`, and no synchronous standby confirms."""


class OutcomeUnknown(RowlockError):
    """The database went away during COMMIT, and it could not be found out in time whether the change was made."""


class Closed(RowlockError):
    """The broker was closed."""


class ServerTooOld(RowlockError):
    """The database server is older than Rowlock needs."""


class ServerUnsafe(RowlockError):
    """The database server's settings would lose messages that were acknowledged."""


class SchemaTooNew(RowlockError):
    """The database's schema was written by a newer version of Rowlock."""


class Defect(RowlockError):
    """A mistake in Rowlock itself; please report it."""
