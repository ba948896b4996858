"""The port between the broker and a database, and the plain structs that pass through it.

A store holds no rule. It locks rows, reads them, writes what it is told, and commits; three small objects do that:

- `Store`    one database: checks the server, creates and migrates the schema, opens connections.
- `Control`  the catalog: named, versioned documents (topics, subscriptions, partitions, tasks), changed by compare and
             swap.
- `Lane`     one connection to one lane's hot tables. A transaction has always the same shape:
             `lock` (all locks, then reads), nothing or some reads, `write` (all writes, then COMMIT).

All times are integers: milliseconds since 1970 by the database's clock. All ids and stamps are positive and fit in 63
bits.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from rowlock.model import Stored as Stored  # noqa: PLC0414 - the port's own word as well

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Cursor = tuple[int, int]
"""(part, sub): one subscription's place in one partition."""


class Durability(StrEnum):
    LOCAL = "local"
    REPLICATED = "replicated"
    RELAXED = "relaxed"


# Rows, as they are stored


class Scheduled(Struct, gc=False):
    """A delayed message that waits outside the log (fields in column order, as those of `Stored`)."""

    part: int
    due: int
    id: bytes
    accepted_at: int
    expires_at: int | None
    key: str | None
    attributes: bytes | None
    size: int
    body: bytes


class Deduplicated(Struct, gc=False):
    """A message id remembered under a deduplication id, in a time bucket that is removed as a whole."""

    part: int
    bucket: int
    scope: str
    id: str
    message: bytes
    seq: int
    """0 while the message is scheduled and not in the log yet."""
    at: int


class PartitionRow(Struct, gc=False):
    """The lock row of a partition, with what the log says of it."""

    part: int
    version: int
    """Of the topic's settings; raised under this row's lock."""
    first: int
    """Below it nothing is held any more, for any reader."""
    swept: int
    """Rows below it have been deleted."""
    last: int = 0
    """The last sequence in the log, 0 when nothing was ever appended (read, not stored)."""
    last_at: int = 0
    """published_at of the last message (read, not stored)."""
    waiting: int = 0
    """Scheduled messages (read from `delays`)."""
    next_due: int | None = None
    """When the earliest scheduled message is due (read from `delays`)."""


class PageRow(Struct, gc=False):
    """A stored page of a ledger. The newest page (highest `page`) is the ledger's head."""

    part: int
    sub: int
    page: int
    era: int
    stamp: int
    """Of the cycle that wrote this row: 63 random bits; equal stamps mean equal rows."""
    frontier: int
    """The ledger's first sequence never handed out, when this row was written."""
    outstanding: int
    """The ledger's messages below the frontier that are not done, when this row was written."""
    at: int
    """The latest time that a decision of this ledger was made for."""
    data: bytes | None
    """None in a view where the reader said that it knows the stamp."""


class CursorRow(Struct, gc=False):
    """The lock row of one (partition, subscription), with the head of its ledger."""

    part: int
    sub: int
    version: int
    """Of the subscription's settings; raised under this row's lock."""
    head: PageRow | None
    """Always without data here; the pages of a view carry it."""


class Position(Struct, gc=False):
    """Where a ledger stands, read without a lock: one row of the query that finds work for waiters and timers."""

    part: int
    sub: int
    version: int
    first: int
    last: int
    waiting: int
    stamp: int
    frontier: int
    outstanding: int


# A transaction's three parts: what it locks, what it sees, what it writes


class Scope(Struct):
    """What a transaction locks and reads. Locks are taken in the order: partitions by id, cursors by (part, sub)."""

    parts: Sequence[int] = ()
    cursors: Sequence[Cursor] = ()
    whole: Sequence[int] = ()
    """Partitions (also in `parts`) of which every cursor that exists is locked and viewed, whether named or not."""
    known: dict[Cursor, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """Per cached ledger: the stamp of its head, and the stamps of all its pages."""


class View(Struct):
    """What was there once everything was locked. A lock row that does not exist is not in it."""

    clock: int
    partitions: dict[int, PartitionRow]
    """Those that were locked, and those that the cursors are of."""
    cursors: dict[Cursor, CursorRow]
    pages: dict[Cursor, list[PageRow]]
    """All pages of each ledger whose head is not the known one (data None where the page's stamp is known)."""


class MessageColumns(Struct):
    """Messages to insert, by column, so that a batch costs no object per message.

    A column that is NULL in every row is an empty list.
    """

    parts: list[int] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    published_at: list[int] = field(default_factory=list)
    expires_at: list[int | None] = field(default_factory=list)
    due_at: list[int | None] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    attributes: list[bytes | None] = field(default_factory=list)
    origins: list[bytes | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


class PageWrite(Struct, gc=False):
    """A page to insert (`was` 0: no row of this (part, sub, page, era) may exist) or to replace (the row has stamp
    `was`)."""

    row: PageRow
    was: int


class PageDrop(Struct, gc=False):
    part: int
    sub: int
    page: int
    era: int
    was: int


class Delay(Struct, gc=False):
    """A change to how many messages are scheduled for a partition; the store finds the next due time by itself."""

    part: int
    change: int


class Progress(Struct, gc=False):
    """Messages that a redrive moved, counted in the transaction that moves them."""

    move: int
    part: int
    moved: int


class Turn(Struct, gc=False):
    """One transaction's place in its writer's chain: it follows `previous` and leaves `stamp`.

    The row `writers (writer, stamp)` is how an unknown outcome is found out, and how a late statement of a lost
    connection is kept from taking effect. The first write locks it, after all lock rows; no other process touches it.
    """

    writer: int
    stamp: int
    previous_writer: int | None
    """None: the first turn (insert); the same as `writer`: replace; another: delete that row, insert this one."""
    previous: int | None


class Changes(Struct):
    """All that one transaction writes. `write` does it under the locks of `lock`; `attempt` first compares."""

    turn: Turn
    decided_at: int
    """The database's time that this was decided for; `attempt` disagrees when its clock is over limits.CYCLE_CLOCK_MS
    away."""
    expected_parts: list[tuple[int, int, int | None]] = field(default_factory=list)
    """(part, version, last sequence): locked and compared by `attempt`; None: the last sequence does not matter."""
    expected_cursors: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(part, sub, version, head stamp): locked and compared by `attempt`."""
    messages: MessageColumns = field(default_factory=MessageColumns)
    pages: list[PageWrite] = field(default_factory=list)
    dropped_pages: list[PageDrop] = field(default_factory=list)
    deduplicated: list[Deduplicated] = field(default_factory=list)
    """Insert or replace; `attempt` disagrees when one of the new (part, bucket, scope, id) exists."""
    unseen: list[tuple[int, int, str, str]] = field(default_factory=list)
    """(part, bucket, scope, id) that must not exist: `attempt` disagrees when one does. `write` does not look."""
    scheduled: list[Scheduled] = field(default_factory=list)
    unscheduled: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(part, due, id) to delete."""
    delays: list[Delay] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    partitions: list[PartitionRow] = field(default_factory=list)
    """Lock rows to insert or replace (version, first, swept)."""
    cursors: list[tuple[int, int, int]] = field(default_factory=list)
    """Lock rows to insert or replace: (part, sub, version)."""
    removed_partitions: list[int] = field(default_factory=list)
    removed_cursors: list[Cursor] = field(default_factory=list)


class Attempt(Struct, gc=False):
    agreed: bool
    """True: written and committed. False: nothing was written, and the transaction is over."""
    clock: int


class Wanted(Struct, gc=False):
    """A range of the log to read: sequences from `start` to `stop` (exclusive), in order, within a bound of bytes."""

    part: int
    start: int
    stop: int
    bytes: int
    """Rows are returned while the sum of their sizes stays within it; the first row always."""


class Lane(Protocol):
    """One connection to one lane's tables. Used by one task at a time.

    Raises the classes of `store.faults` only. After `Lost` the object is dead: close it and open another.
    """

    compares: bool
    """Whether `attempt` saves round trips here; where False, the broker always uses `lock` and `write`."""
    clock_shift: int
    """Milliseconds added to the database's clock wherever it is read or compared: tests move time with it."""

    async def lock(self, scope: Scope) -> View:
        """Begin a transaction, take all locks (a statement of its own), then read by later statements."""

    async def write(self, changes: Changes) -> None:
        """Write and COMMIT. A page whose row has another stamp than named, or a lost turn, raises `Contended`,
        nothing written."""

    async def rollback(self) -> None:
        """End a transaction that `lock` began, without a change. Harmless when there is none."""

    async def attempt(self, changes: Changes) -> Attempt:
        """Compare and write in one round trip: lock, compare, and write and commit if all agrees."""

    async def fence(self, turn: Turn) -> bool:
        """Whether that turn was committed; if it was not, see to it that it never will be. Waits for its locks."""

    async def messages(self, ranges: Sequence[Wanted], seqs: Sequence[tuple[int, int]]) -> list[Stored]:
        """Messages by ranges and by (part, seq), inside a transaction or outside; what is not there is left out."""

    async def first_live(self, part: int, start: int, steps: int, now: int) -> tuple[int, bool]:
        """The first sequence at or after `start` that has not expired, among the next `steps` rows, and True;
        or the sequence after the last row looked at, and False. Reads no bodies."""

    async def duplicates(self, keys: Sequence[tuple[int, int, str, str]]) -> list[Deduplicated]:
        """Which of these (part, bucket, scope, id) are remembered."""

    async def due(self, part: int, now: int, limit: int) -> list[Scheduled]:
        """Scheduled messages of a partition that are due, earliest first."""

    async def parts_due(self, now: int) -> list[int]:
        """Partitions with scheduled messages that are due."""

    async def positions(self, cursors: Sequence[Cursor]) -> list[Position]:
        """Where these ledgers stand, in one statement; without a lock. A missing lock row leaves its row out."""

    async def all_cursors(self, after: Cursor, limit: int) -> list[Cursor]:
        """Cursors of the lane in order, for sweeps."""

    async def partition_rows(self, parts: Sequence[int]) -> list[PartitionRow]:
        """Lock rows and what the log says, without a lock."""

    async def pages(self, cursor: Cursor) -> list[PageRow]:
        """A ledger's pages with their data, without a lock, as of one moment."""

    async def sequence_at(self, part: int, time: int) -> int:
        """The first sequence with published_at >= time (the one after the last when there is none), by bisection."""

    async def progress(self, move: int) -> int:
        """How many messages a redrive has moved, over the lane's partitions."""

    async def clock(self) -> int:
        """The database's clock, shifted."""

    async def delete_messages(self, part: int, start: int, stop: int) -> int:
        """Delete a range of the log (a step of retention; a transaction of its own). Returns the rows deleted."""

    async def delete_deduplicated(self, part: int, bucket: int, limit: int) -> int:
        """Delete up to `limit` remembered ids of a partition in buckets below `bucket`."""

    async def delete_remains(self, part: int, sub: int | None, limit: int) -> int:
        """Delete up to `limit` rows that a deleted partition (sub None: messages, pages, dedup, scheduled, delays) or a
        deleted subscription's ledger (pages of that (part, sub)) left behind. Returns how many; 0: nothing is left."""

    async def delete_writers(self, before: int) -> None:
        """Forget writers whose last turn is older than that."""

    async def close(self) -> None:
        """Close at once, also in the middle of something; never cancels a COMMIT under way."""


class Entry(Struct):
    """A named, versioned document of the catalog."""

    kind: str
    id: int
    name: str
    version: int
    document: str
    """JSON."""
    created_at: int
    owner: str
    parent: int | None = None


class Control(Protocol):
    """The catalog's tables. Each call is one transaction of its own. Safe to call concurrently; reconnects by itself,
    and raises `Lost` only when its patience of a few seconds is over."""

    async def allocate(self, count: int) -> int:
        """Reserve `count` ids that no one ever had; returns the first."""

    async def find(self, kind: str, names: Sequence[str]) -> list[Entry]: ...

    async def get(self, ids: Sequence[int]) -> list[Entry]: ...

    async def children(self, kind: str, parents: Sequence[int]) -> list[Entry]: ...

    async def list(self, kind: str, prefix: str = "", after: str = "", limit: int = 1000) -> list[Entry]:
        """Entries of a kind by name (bytewise order), for paging."""

    async def apply(
        self,
        inserts: Iterable[Entry] = (),
        replaces: Iterable[Entry] = (),
        removes: Iterable[Entry] = (),
    ) -> bool:
        """All or nothing. False, and nothing changed, when a (kind, name) or id to insert exists, or when an entry to
        replace or to remove is not at the version before (replace: `entry.version - 1`; remove: `entry.version`)."""

    async def secret(self) -> bytes:
        """32 random bytes that all brokers on this database share (made at the first call)."""

    async def lease(self, duty: str, holder: int, milliseconds: int) -> bool:
        """Take or renew a duty that one process at a time has; False while another holds it."""

    async def clock(self) -> int: ...

    async def close(self) -> None: ...


class Store(Protocol):
    """One database."""

    dialect: str
    lanes: int
    """How many lanes the schema has; known after `open`."""
    hints: bool
    """Whether `hint` and `listen` work here; where False, waiters rely on the bounded fallback query."""
    hint_poll_ms: int
    """How often the fallback query runs while somebody waits."""

    async def open(self, lanes: int | None = None) -> None:
        """Check the server, create or migrate the schema (to at least that many lanes), and read what it has."""

    @property
    def control(self) -> Control: ...

    async def lane(self, number: int, durability: Durability) -> Lane:
        """A new connection to a lane, whose commits have that durability."""

    async def hint(self, parts: Sequence[int]) -> None:
        """Tell other processes that these partitions changed. Best effort: never raises, never waits for long."""

    async def listen(self, heard: Callable[[Sequence[int] | None], None]) -> None:
        """Call `heard` with the partitions of every hint (None: any may have changed) until closed; reconnects by
        itself."""

    async def close(self) -> None: ...
