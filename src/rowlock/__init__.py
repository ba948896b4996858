"""Rowlock: a message broker on the SQL database that you already trust."""

from rowlock import blocking
from rowlock.embedded import Broker, ClaimedMessage, open
from rowlock.model import Depth, Description, Message, Origin, Published, Redrive
from rowlock.version import VERSION

__version__ = VERSION

__all__ = [
    "Broker",
    "ClaimedMessage",
    "Depth",
    "Description",
    "Message",
    "Origin",
    "Published",
    "Redrive",
    "__version__",
    "blocking",
    "open",
]
