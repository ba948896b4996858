"""Which message comes next: three orders over one ledger.

An order indexes the ledger's outstanding messages (those below the frontier that are not done). A message in the index is
*busy* while somebody holds it or it waits for a time, and *open* when it could be handed out again. The index is derived:
it can be rebuilt from pages and keys at any time.

- `Plain`     no order: open messages first, then the frontier.
- `ByKey`     a key's messages in sequence, none while one of the key is busy (order `key`; `topic` is one implicit key).
- `Fair`      no order, but a key with far more in flight than the others is set back.

A ledger tells its order of every change: `add` (messages became outstanding), `busy`, `open`, `hide` (outstanding, but not
to be handed out), `done` (no longer outstanding), `tidy` (the decision is over). What it takes from the order to hand out is busy from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush, nsmallest

from rowlock.limits import FAIR_FREE_MESSAGES


class Plain:
    """Open messages come back lowest sequence first."""

    keyed = False

    def __init__(self) -> None:
        self._open: list[int] = []

    def add(self, seqs: Iterable[int], busy: bool) -> None:
        if not busy:
            self.open(seqs)

    def busy(self, seqs: Iterable[int]) -> None:
        pass

    def open(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            heappush(self._open, seq)

    def hide(self, seqs: Iterable[int]) -> None:
        pass

    def done(self, seqs: Iterable[int]) -> None:
        pass

    def tidy(self) -> None:
        pass

    def peek(self, limit: int) -> list[int]:
        """Some sequences that `take` may return next."""
        return nsmallest(limit, self._open) if limit < len(self._open) else self._open[:]

    def take(self, limit: int) -> list[int]:
        """Up to `limit` sequences that were opened, lowest first, each once; the ledger knows which are still open.
        The caller makes them busy or done, or opens them again."""
        taken: list[int] = []
        last = -1
        while self._open and len(taken) < limit:
            seq = heappop(self._open)
            if seq != last:
                last = seq
                taken.append(seq)
        return taken


class _Key:
    """One key's outstanding messages."""

    __slots__ = ("busy", "heap", "seqs")

    def __init__(self) -> None:
        self.seqs: set[int] = set()
        self.heap: list[int] = []
        self.busy = 0

    def lowest(self) -> int:
        while self.heap[0] not in self.seqs:
            heappop(self.heap)
        return self.heap[0]


class _Keyed:
    """The part that `ByKey` and `Fair` share: outstanding messages by key, and how many of each are busy."""

    keyed = True

    def __init__(self) -> None:
        self.key_of: dict[int, str] = {}
        self._keys: dict[str, _Key] = {}
        self._busy: set[int] = set()
        self._finished: list[int] = []

    def learn(self, seq: int, key: str) -> None:
        """The key of a message that is about to be added."""
        self.key_of[seq] = key

    def add(self, seqs: Iterable[int], busy: bool) -> None:
        for seq in seqs:
            name = self.key_of[seq]
            key = self._keys.get(name)
            if key is None:
                key = self._keys[name] = _Key()
            if seq not in key.seqs:
                key.seqs.add(seq)
                heappush(key.heap, seq)
            if busy:
                self._busy.add(seq)
                key.busy += 1
            else:
                self._opened(seq, name, key)

    def busy(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            if seq not in self._busy:
                self._busy.add(seq)
                self._keys[self.key_of[seq]].busy += 1

    def open(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            name = self.key_of[seq]
            key = self._keys[name]
            if seq in self._busy:
                self._busy.discard(seq)
                key.busy -= 1
            self._opened(seq, name, key)

    def done(self, seqs: Iterable[int]) -> None:
        seqs = list(seqs)
        self.hide(seqs)
        self._finished += seqs

    def hide(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            name = self.key_of[seq]
            key = self._keys.get(name)
            if key is None or seq not in key.seqs:
                continue
            key.seqs.discard(seq)
            if seq in self._busy:
                self._busy.discard(seq)
                key.busy -= 1
            if not key.seqs:
                del self._keys[name]
            else:
                self._closed(name, key)

    def tidy(self) -> None:
        """A decision is over: forget the keys of messages that it finished (until then it could be undone)."""
        for seq in self._finished:
            name = self.key_of.get(seq)
            if name is not None and (name not in self._keys or seq not in self._keys[name].seqs):
                del self.key_of[seq]
        self._finished.clear()

    def _opened(self, seq: int, name: str, key: _Key) -> None:
        raise NotImplementedError

    def _closed(self, name: str, key: _Key) -> None:
        raise NotImplementedError


class ByKey(_Keyed):
    """A key is ready when it has outstanding messages and none of them is busy."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: list[tuple[int, str]] = []

    def _opened(self, seq: int, name: str, key: _Key) -> None:
        self._closed(name, key)

    def _closed(self, name: str, key: _Key) -> None:
        if key.busy == 0:
            heappush(self._ready, (key.lowest(), name))

    def next_ready(self) -> tuple[str, list[int]] | None:
        """The ready key with the lowest sequence, and its messages in order; the caller makes those it takes busy.
        The key comes again once something of it was opened or done; one of which nothing was taken or done must be
        given back with `leave`."""
        while self._ready:
            lowest, name = heappop(self._ready)
            key = self._keys.get(name)
            if key is not None and key.busy == 0 and key.lowest() == lowest:
                return name, sorted(key.seqs)
        return None

    def peek(self, limit: int) -> list[int]:
        """Some sequences of ready keys."""
        found: list[int] = []
        for lowest, name in sorted(self._ready)[:limit]:
            key = self._keys.get(name)
            if key is not None and key.busy == 0 and key.lowest() == lowest and len(found) < limit:
                found += sorted(key.seqs)[: limit - len(found)]
        return found

    def leave(self, name: str) -> None:
        key = self._keys.get(name)
        if key is not None:
            self._closed(name, key)

    def blocks(self, name: str) -> bool:
        """Whether a new message of this key has to wait for earlier ones."""
        return name in self._keys


class Fair(_Keyed):
    """Plain, except that a key with far more in flight than the others is set back."""

    def __init__(self) -> None:
        super().__init__()
        self._open_of: dict[str, list[int]] = {}
        self._ready: list[tuple[int, str]] = []

    def _opened(self, seq: int, name: str, key: _Key) -> None:
        heap = self._open_of.setdefault(name, [])
        heappush(heap, seq)
        if heap[0] == seq:
            heappush(self._ready, (seq, name))

    def _closed(self, name: str, key: _Key) -> None:
        pass

    def take(self, limit: int, greedy_too: bool) -> list[int]:
        """Up to `limit` open sequences, lowest first, which are made busy; those of greedy keys only if asked for."""
        taken: list[int] = []
        set_back: list[tuple[int, str]] = []
        while self._ready and len(taken) < limit:
            entry = heappop(self._ready)
            seq, name = entry
            heap = self._open_of.get(name, [])
            if not heap or heap[0] != seq:
                continue
            if not greedy_too and self.greedy(name):
                set_back.append(entry)
                continue
            heappop(heap)
            key = self._keys.get(name)
            if key is not None and seq in key.seqs and seq not in self._busy:
                self.busy((seq,))
                taken.append(seq)
            self._advance(name, heap)
        for entry in set_back:
            heappush(self._ready, entry)
        return taken

    def peek(self, limit: int) -> list[int]:
        """Some open sequences, those of greedy keys last."""
        names = {name for _, name in self._ready}
        greedy = {name for name in names if self.greedy(name)}
        found = [seq for name in names - greedy for seq in nsmallest(limit, self._open_of.get(name, []))]
        if len(found) < limit:
            found += [seq for name in greedy for seq in nsmallest(limit, self._open_of.get(name, []))]
        return nsmallest(limit, found)

    def _advance(self, name: str, heap: list[int]) -> None:
        if heap:
            heappush(self._ready, (heap[0], name))
        else:
            del self._open_of[name]

    def greedy(self, name: str) -> bool:
        """Whether the key has at least twice the mean of what the other keys have in flight, and more than a few."""
        key = self._keys.get(name)
        if key is None or key.busy <= FAIR_FREE_MESSAGES:
            return False
        others = len(self._keys) - 1
        return key.busy * others >= 2 * (len(self._busy) - key.busy)
