"""What one process remembers of one lane: ledgers, partitions, and recent messages.

All of it is a cache. Ledgers and partitions are compared with the database by stamp and by last sequence whenever they
are used; messages never change. Everything is dropped when a connection was lost: after a failover the database may be
behind what was remembered.
"""

from __future__ import annotations

from collections import OrderedDict

from rowlock import limits
from rowlock.ledger.ledger import Ledger
from rowlock.ledger.order import Plain
from rowlock.store.port import Cursor, PartitionRow, Position, Stored

LEDGER_BYTES = 4_000
PAGE_BYTES = 700
KEY_BYTES = 400
"""What a ledger, a page of it, and a message in the index of an ordered or fair one take in memory, roughly."""


class Partition:
    """The last known state of a partition."""

    __slots__ = ("doubtful", "first", "last", "last_at", "part", "swept", "version")

    def __init__(self, row: PartitionRow):
        self.part = row.part
        self.version = row.version
        self.first = row.first
        self.swept = row.swept
        self.last = row.last
        self.last_at: int | None = row.last_at
        """When the last message was published; None where only its sequence is known, so that nothing can follow it."""

        self.doubtful = False
        """Another process hinted that something has changed since."""

    def heard_of(self, last: int) -> None:
        """The log reaches up to there, as was read a moment ago."""
        self.doubtful = False
        if last > self.last:
            self.last, self.last_at = last, None


class Remembered:
    """A cached ledger, and the settings' version that its rules are of."""

    __slots__ = ("bytes", "ledger", "version")

    def __init__(self, ledger: Ledger, version: int):
        self.ledger = ledger
        self.version = version
        self.bytes = 0
        """What it was last counted for."""

    def is_at(self, position: Position) -> bool:
        """Whether the ledger is just as it is stored."""
        head = self.ledger.pages.get(self.ledger.head)
        return position.version == self.version and head is not None and position.stamp == head.stamp

    def count(self) -> int:
        """By how much it has grown since it was last counted."""
        before, self.bytes = self.bytes, LEDGER_BYTES + PAGE_BYTES * len(self.ledger.pages)
        if not isinstance(self.ledger.order, Plain):
            self.bytes += KEY_BYTES * self.ledger.outstanding
        return self.bytes - before


class Log:
    """Recent and read-ahead messages of one partition, by sequence."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages: dict[int, Stored] = {}
        self.bytes = 0


_NOTHING: dict[int, Stored] = {}
_OVERHEAD_BYTES = 400


class Memory:
    """The caches of one lane, bounded in bytes."""

    def __init__(self, log_bytes: int = limits.LOG_CACHE_BYTES, ledger_bytes: int = limits.LEDGER_CACHE_BYTES):
        self.partitions: dict[int, Partition] = {}
        self.ledgers: OrderedDict[Cursor, Remembered] = OrderedDict()
        self.readers: dict[int, int] = {}
        """How many cached ledgers read each partition: only then published messages are kept for them."""
        self._logs: OrderedDict[int, Log] = OrderedDict()
        self._log_bytes = 0
        self._log_limit = log_bytes
        self._ledger_bytes = 0
        self._ledger_limit = ledger_bytes

    def clear(self) -> None:
        """Forget everything: the database may not be what it was."""
        self.partitions.clear()
        self.ledgers.clear()
        self.readers.clear()
        self._logs.clear()
        self._log_bytes = self._ledger_bytes = 0

    # Ledgers

    def ledger(self, cursor: Cursor, version: int) -> Ledger | None:
        """The cached ledger, if its rules are of that version."""
        found = self.ledgers.get(cursor)
        if found is None:
            return None
        if found.version != version:
            self.forget(cursor)
            return None
        self.ledgers.move_to_end(cursor)
        return found.ledger

    def remember(self, cursor: Cursor, ledger: Ledger, version: int) -> None:
        known = self.ledgers.get(cursor)
        if known is not None and known.ledger is ledger:
            return
        if known is None:
            self.readers[cursor[0]] = self.readers.get(cursor[0], 0) + 1
        else:
            self._ledger_bytes -= known.bytes
        self.ledgers[cursor] = Remembered(ledger, version)

    def forget(self, cursor: Cursor) -> None:
        known = self.ledgers.pop(cursor, None)
        if known is not None:
            self._ledger_bytes -= known.bytes
            self.readers[cursor[0]] -= 1
            if not self.readers[cursor[0]]:
                del self.readers[cursor[0]]
                self._forget_log(cursor[0])

    def shrink(self, used: set[Cursor]) -> None:
        """Count what these have grown by, and forget the ledgers used longest ago where all take more than they may."""
        for cursor in used:
            known = self.ledgers.get(cursor)
            if known is not None:
                self._ledger_bytes += known.count()
        while self._ledger_bytes > self._ledger_limit:
            oldest = next(iter(self.ledgers))
            if oldest in used:
                break
            self.forget(oldest)

    # Messages

    def log(self, part: int) -> dict[int, Stored]:
        """Known messages of a partition, to read only."""
        found = self._logs.get(part)
        return _NOTHING if found is None else found.messages

    def learn(self, part: int, messages: list[Stored]) -> None:
        """Keep messages of one partition; the partitions used longest ago make room."""
        log = self._logs.get(part)
        if log is None:
            log = self._logs[part] = Log()
        self._logs.move_to_end(part)
        before = len(log.messages)
        log.messages.update({message.seq: message for message in messages})
        size = sum([message.size for message in messages]) + _OVERHEAD_BYTES * (len(log.messages) - before)
        log.bytes += size
        self._log_bytes += size
        while self._log_bytes > self._log_limit:
            oldest = next(iter(self._logs))
            if oldest == part:
                self._halve(log)
                break
            self._forget_log(oldest)

    def unlearn(self, part: int, seqs: range) -> None:
        """These were never stored after all."""
        log = self._logs.get(part)
        if log is None:
            return
        gone = [message for seq in seqs if (message := log.messages.pop(seq, None)) is not None]
        freed = sum(message.size + _OVERHEAD_BYTES for message in gone)
        log.bytes -= freed
        self._log_bytes -= freed

    def trim_log(self, part: int, below: int) -> None:
        """Messages below are of no use any more, for any ledger known here."""
        log = self._logs.get(part)
        if log is None:
            return
        self._keep(log, [message for seq, message in log.messages.items() if seq >= below])

    def _halve(self, log: Log) -> None:
        """One partition alone takes more than there is: keep the newer half."""
        self._keep(log, list(log.messages.values())[len(log.messages) // 2 :])

    def _keep(self, log: Log, messages: list[Stored]) -> None:
        self._log_bytes -= log.bytes
        log.messages = {message.seq: message for message in messages}
        log.bytes = sum(message.size + _OVERHEAD_BYTES for message in messages)
        self._log_bytes += log.bytes

    def _forget_log(self, part: int) -> None:
        log = self._logs.pop(part, None)
        if log is not None:
            self._log_bytes -= log.bytes
