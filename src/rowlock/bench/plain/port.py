"""What the plain side does: the bare limit (rows inserted in a loop), and a queue in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Plain(Protocol):
    """One connection to the plain tables."""

    async def create(self) -> None:
        """Make the tables anew, empty."""

    async def insert(self, bodies: Sequence[bytes]) -> None:
        """The bare limit: as many rows as Rowlock stores for these messages, in one statement and one commit."""

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Into the queue."""

    async def take(self, most: int) -> list[int]:
        """Hand out rows of the queue for 30 s, with their bodies; returns their ids."""

    async def delete(self, ids: Sequence[int]) -> None: ...

    async def extend(self, ids: Sequence[int]) -> None: ...

    async def tidy(self) -> None:
        """Vacuum and statistics, as a database at work has them."""

    async def close(self) -> None: ...
