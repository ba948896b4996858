"""Histories told by hand: what clients of two processes asked and were told, moment by moment."""

from __future__ import annotations

from rowlock.simulate import records
from rowlock.simulate.history import History
from rowlock.simulate.streams import streams
from rowlock.simulate.verdict import judge

TIMEOUT = 10.0


class Story:
    """What is not said is as it should be: every message is settled in the end, by whoever was handed it."""

    def __init__(self) -> None:
        self._told: dict[str, list[records.Record]] = {"a": [], "b": []}
        self._calls = 0
        self._sequences: dict[str, int] = {}
        self._ids: dict[str, tuple[str, int]] = {}

    def publish(
        self,
        name: str,
        at: float = 0.0,
        *,
        topic: str = "orders",
        key: str | None = None,
        expires_in: float | None = None,
        outcome: str | None = records.OK,
        sequence: int | None = None,
        id_: str | None = None,
    ) -> None:
        call = self._next()
        outgoing = records.Outgoing(name, key, expires_in)
        self._told["a"].append(records.Publishing(call, at, topic, [outgoing]))
        self._sequences[topic] = sequence or self._sequences.get(topic, 0) + 1
        self._ids[name] = id_ or f"id of {name}", self._sequences[topic]
        if outcome is not None:
            stored = records.StoredAs(self._ids[name][0], 0, self._sequences[topic], False)
            self._told["a"].append(
                records.Published(call, at + 0.1, outcome, [stored] if outcome == records.OK else [])
            )

    def claim(
        self,
        *names: str,
        at: float,
        by: str = "a",
        subscription: str = "orders",
        receives: int = 1,
        id_: str | None = None,
        intact: bool = True,
        key: str | None = None,
    ) -> int:
        """Returns the claim's number, to settle with."""
        call = self._next()
        handed = []
        for name in names:
            known, sequence = self._ids.get(name, ("?", 99))
            handed.append(records.Handed(name, id_ or known, sequence, receives, key, intact, None))
        self._told[by].append(records.HandedOut(call, subscription, by, at, at + 0.1, TIMEOUT, handed))
        return call

    def act(
        self, claim: int, at: float, verb: str = records.SETTLE, outcome: str | None = records.OK, *, by: str = "a"
    ) -> None:
        """`outcome` None: the process died before it was told."""
        call = self._next()
        self._told[by].append(records.Acting(call, at, verb, claim, 0, TIMEOUT))
        if outcome is not None:
            self._told[by].append(records.Acted(call, at + 0.1, outcome))

    def violations(self) -> dict[int, list[str]]:
        """By invariant, where there are any."""
        history = History(streams("", frozenset()))
        for told in self._told.values():
            history.add_publishes(told)
        for source, told in self._told.items():
            history.add_hand_outs(source, told)
        history.sort()
        return {one.number: one.violations for one in judge(history) if one.violations}

    def _next(self) -> int:
        self._calls += 1
        return self._calls
