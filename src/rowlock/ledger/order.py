"""Which message comes next: three orders over one ledger.

An order indexes the ledger's outstanding messages (those below the frontier that are not done). A message in the index
is *busy* while somebody holds it or it waits for a retry, *open* when it could be handed out, and neither before its
due time: it then keeps back the later ones of its key, and not the earlier ones. The index is derived: it can be
rebuilt from pages and keys at any time.

- `Plain`     no order: open messages first, then the frontier.
- `ByKey`     a key's messages in sequence, none while one of them is busy (order `key`; `topic` is one implicit key).
- `Fair`      no order, but a key with far more in flight than the others is set back.

A ledger tells its order of every change: `add` (messages became outstanding; then `busy` or `open` unless they are not
due), `busy`, `open`, `hide` (outstanding, but not to be handed out), `done` (no longer outstanding), `tidy` (the
decision is over). What it takes from the order to hand out is busy from then on.

Heaps are cleaned lazily, and rebuilt once they are more than half stale: a broker that only settles what others claim
would else keep every message that was ever open.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from rowlock.limits import FAIR_FREE_MESSAGES

_SLACK = 64
"""Stale entries that a heap may have in any case."""


class Plain:
    """Open messages come back lowest sequence first."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._heap: list[int] = []

    def add(self, seqs: Iterable[int]) -> None:
        pass

    def busy(self, seqs: Iterable[int]) -> None:
        pass

    def open(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            if seq not in self._open:
                self._open.add(seq)
                heappush(self._heap, seq)
        if len(self._heap) > 2 * len(self._open) + _SLACK:
            self._heap = sorted(self._open)

    def hide(self, seqs: Iterable[int]) -> None:
        self._open.difference_update(seqs)

    def done(self, seqs: Iterable[int]) -> None:
        self._open.difference_update(seqs)

    def tidy(self) -> None:
        pass

    def peek(self, limit: int) -> list[int]:
        """The sequences that `take` would return."""
        seqs = self.take(limit)
        self.open(seqs)
        return seqs

    def take(self, limit: int) -> list[int]:
        """Up to `limit` open sequences, lowest first; the caller makes them busy or done, or opens them again."""
        taken: list[int] = []
        while self._heap and len(taken) < limit:
            seq = heappop(self._heap)
            if seq in self._open:
                self._open.discard(seq)
                taken.append(seq)
        return taken


class _Key:
    """One key's outstanding messages."""

    __slots__ = ("busy", "heap", "queued", "seqs")

    def __init__(self) -> None:
        self.seqs: set[int] = set()
        self.heap: list[int] = []
        """The sequences to hand out from, and stale ones."""
        self.busy = 0
        self.queued = 0
        """The sequence that the key waits its turn with; 0: it does not."""

    def push(self, seq: int) -> None:
        heappush(self.heap, seq)
        if len(self.heap) > 2 * len(self.seqs) + _SLACK:
            self.heap = sorted(self.seqs)


class _Keyed:
    """What `ByKey` and `Fair` share: outstanding messages by key, how many of each are busy, whose turn it is."""

    def __init__(self) -> None:
        self.key_of: dict[int, str] = {}
        self._keys: dict[str, _Key] = {}
        self._busy: set[int] = set()
        self._not_due: set[int] = set()
        self._finished: set[int] = set()
        self._turns: list[tuple[int, str]] = []

    def add(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            name = self.key_of[seq]
            key = self._keys.get(name)
            if key is None:
                key = self._keys[name] = _Key()
            key.seqs.add(seq)
            self._not_due.add(seq)
            self._finished.discard(seq)
            self._added(seq, key)

    def busy(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            if seq not in self._busy:
                self._busy.add(seq)
                self._not_due.discard(seq)
                self._keys[self.key_of[seq]].busy += 1

    def open(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            name = self.key_of[seq]
            key = self._keys[name]
            self._not_due.discard(seq)
            if seq in self._busy:
                self._busy.discard(seq)
                key.busy -= 1
            self._opened(seq, name, key)

    def done(self, seqs: Iterable[int]) -> None:
        seqs = list(seqs)
        self.hide(seqs)
        self._finished.update(seqs)

    def hide(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            name = self.key_of[seq]
            key = self._keys.get(name)
            if key is None or seq not in key.seqs:
                continue
            key.seqs.discard(seq)
            self._not_due.discard(seq)
            if seq in self._busy:
                self._busy.discard(seq)
                key.busy -= 1
            if key.seqs:
                self._queue(name, key)
            else:
                del self._keys[name]

    def tidy(self) -> None:
        """A decision is over: forget the keys of messages that it finished (until then it could be undone)."""
        for seq in self._finished:
            del self.key_of[seq]
        self._finished.clear()

    def _queue(self, name: str, key: _Key) -> None:
        """Let the key wait its turn with the sequence that it offers now, unless it does."""
        offer = self._offer(key)
        if offer is None or offer == key.queued:
            return
        key.queued = offer
        heappush(self._turns, (offer, name))
        if len(self._turns) > 2 * len(self._keys) + _SLACK:
            self._turns = sorted((key.queued, name) for name, key in self._keys.items() if key.queued)

    def _next(self) -> tuple[str, _Key] | None:
        """The key with the lowest offer; it waits no longer."""
        while self._turns:
            offer, name = heappop(self._turns)
            key = self._keys.get(name)
            if key is None or key.queued != offer:
                continue
            key.queued = 0
            if self._offer(key) == offer:
                return name, key
            self._queue(name, key)
        return None

    def _added(self, seq: int, key: _Key) -> None:
        raise NotImplementedError

    def _opened(self, seq: int, name: str, key: _Key) -> None:
        raise NotImplementedError

    def _offer(self, key: _Key) -> int | None:
        """The sequence that could be handed out first of a key, None when there is none now."""
        raise NotImplementedError


class ByKey(_Keyed):
    """A key is ready when it has outstanding messages and none of them is busy."""

    def _added(self, seq: int, key: _Key) -> None:
        key.push(seq)

    def _opened(self, seq: int, name: str, key: _Key) -> None:
        self._queue(name, key)

    def _offer(self, key: _Key) -> int | None:
        if key.busy:
            return None
        while key.heap[0] not in key.seqs:
            heappop(key.heap)
        return None if key.heap[0] in self._not_due else key.heap[0]

    def next_ready(self) -> str | None:
        """The ready key with the lowest sequence; the caller makes busy what it takes of it. The key comes again once
        something of it was opened or done; one of which nothing was taken or done must be given back with `leave`."""
        found = self._next()
        return found[0] if found else None

    def leave(self, name: str) -> None:
        key = self._keys.get(name)
        if key is not None:
            self._queue(name, key)

    def first(self, name: str, limit: int) -> list[int]:
        """The first open messages of a ready key, in order."""
        found: list[int] = []
        key = self._keys.get(name)
        if key is None:
            return found
        while key.heap and len(found) < limit and key.heap[0] not in self._not_due:
            seq = heappop(key.heap)
            if seq in key.seqs and seq not in found[-1:]:
                found.append(seq)
        for seq in found:
            heappush(key.heap, seq)
        return found

    def outstanding(self, name: str) -> int:
        """How many messages of a key are outstanding; a new one has to wait for them."""
        key = self._keys.get(name)
        return len(key.seqs) if key is not None else 0

    def peek(self, limit: int) -> list[int]:
        """The first sequences of ready keys."""
        found: list[int] = []
        names: list[str] = []
        while len(found) < limit and (name := self.next_ready()) is not None:
            names.append(name)
            found += self.first(name, limit - len(found))
        for name in names:
            self.leave(name)
        return found


class Fair(_Keyed):
    """Plain, except that a key with far more in flight than the others is set back."""

    def _added(self, seq: int, key: _Key) -> None:
        pass

    def _opened(self, seq: int, name: str, key: _Key) -> None:
        key.push(seq)
        self._queue(name, key)

    def _offer(self, key: _Key) -> int | None:
        heap = key.heap
        while heap and (heap[0] not in key.seqs or heap[0] in self._busy or heap[0] in self._not_due):
            heappop(heap)
        return heap[0] if heap else None

    def take(self, limit: int, greedy_too: bool) -> list[int]:
        """Up to `limit` open sequences, lowest first, which are made busy; those of greedy keys only if asked for."""
        taken: list[int] = []
        set_back: list[tuple[str, _Key]] = []
        while len(taken) < limit and (found := self._next()):
            name, key = found
            if not greedy_too and self.greedy(name):
                set_back.append(found)
                continue
            seq = heappop(key.heap)
            self.busy((seq,))
            taken.append(seq)
            self._queue(name, key)
        for name, key in set_back:
            self._queue(name, key)
        return taken

    def peek(self, limit: int) -> list[int]:
        """The sequences that `take` would return, those of greedy keys last."""
        found = self.take(limit, greedy_too=False)
        found += self.take(limit - len(found), greedy_too=True)
        self.open(found)
        return found

    def greedy(self, name: str) -> bool:
        """Whether the key has at least twice the mean of what the other keys have in flight, and more than a few."""
        key = self._keys.get(name)
        if key is None or key.busy <= FAIR_FREE_MESSAGES:
            return False
        others = len(self._keys) - 1
        return key.busy * others >= 2 * (len(self._busy) - key.busy)
