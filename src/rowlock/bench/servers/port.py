"""What a benchmark needs of a database server: Rowlock and the plain side both run on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from rowlock.bench.plain.port import Plain


class Server(ABC):
    """A server of this run's own."""

    plain_queue: ClassVar[str]
    """What the plain queue is, in words."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def version(self) -> str:
        """With the settings that durability depends on."""

    @abstractmethod
    def create_database(self) -> str:
        """An empty database; returns its URL."""

    @abstractmethod
    def drop_database(self, url: str) -> None: ...

    @abstractmethod
    async def plain(self, url: str) -> Plain:
        """A connection for the plain side."""

    @abstractmethod
    async def begin_snapshot(self, url: str) -> Callable[[], object]:
        """Another session begins to hold a snapshot open; returns what ends it."""

    @asynccontextmanager
    async def snapshot(self, url: str) -> AsyncIterator[None]:
        end = await self.begin_snapshot(url)
        try:
            yield
        finally:
            end()

    @abstractmethod
    def cpu_seconds(self) -> float:
        """What the server has used so far, all its processes."""

    @abstractmethod
    def count_statements(self) -> AbstractContextManager[Callable[[], int] | None]:
        """Counts the statements that anybody sends to the server meanwhile; None where nobody can."""
