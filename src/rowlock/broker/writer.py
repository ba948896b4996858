"""A writer's chain of turns: how a process proves which of its transactions were committed.

Every transaction names the stamp that the one before it left and leaves its own. A transaction whose outcome is
unknown is looked up by its stamp; and a statement that arrives late, on a connection that was given up, finds another
stamp than it names, and changes nothing.
"""

from __future__ import annotations

from rowlock import ids, limits
from rowlock.store.port import Turn


class Writer:
    """One connection's chain. It moves to a new row after some turns, so that no row gathers many versions."""

    def __init__(self) -> None:
        self._writer: int | None = None
        self._stamp: int | None = None
        self._turns = 0

    def turn(self) -> Turn:
        """The next turn; taken back by not calling `taken`."""
        writer = self._writer
        if writer is None or self._turns >= limits.WRITER_TURNS:
            writer = ids.stamp()
        return Turn(writer=writer, stamp=ids.stamp(), previous_writer=self._writer, previous=self._stamp)

    def taken(self, turn: Turn) -> None:
        """The turn was committed."""
        self._turns = self._turns + 1 if turn.writer == self._writer else 1
        self._writer, self._stamp = turn.writer, turn.stamp

    def reset(self) -> None:
        """Begin a new chain: the old one was fenced, or its rows may be gone."""
        self._writer = self._stamp = None
        self._turns = 0
