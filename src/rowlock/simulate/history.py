"""What the clients of all processes were told, put together: messages with their publishes and hand-outs.

This is the checker's own small model. It knows the streams and the records, and nothing of ledgers, pages or tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, field

from rowlock.simulate import records
from rowlock.simulate.records import EXTEND, OK, SETTLE
from rowlock.simulate.streams import Streams

SLACK_SECONDS = 0.25
"""How much earlier than its timeout a hold may end, seen by our clock: a hold counts from the database's time, for
which a cycle may be decided up to 50 ms early (limits.CYCLE_CLOCK_MS); both clocks are cut to milliseconds; and the
database's clock may be slewed a little against the monotonic one."""


NEVER = float("inf")


class Publish(Struct, gc=False):
    """One message in one publish."""

    began: float
    ended: float | None
    outcome: str | None
    """None: the process died before it was told."""
    stored: records.StoredAs | None


class Message(Struct):
    """A message, by the name in its body."""

    name: str
    topic: str
    key: str | None
    expires_in: float | None
    publishes: list[Publish] = field(default_factory=list)
    handed: dict[str, list[HandOut]] = field(default_factory=dict)
    """By subscription, in the order of their answers."""

    @property
    def acknowledged(self) -> list[records.StoredAs]:
        return [one.stored for one in self.publishes if one.stored is not None]

    @property
    def expired_by(self) -> float | None:
        """From then on it has expired for certain; None: never, or nobody knows when."""
        if self.expires_in is None or any(one.ended is None for one in self.publishes):
            return None
        return max(one.ended or 0.0 for one in self.publishes) + self.expires_in + SLACK_SECONDS

    @property
    def expired_from(self) -> float:
        """Until then, for certain, it had not expired."""
        if self.expires_in is None or not self.publishes:
            return NEVER
        return min(one.began for one in self.publishes) + self.expires_in - SLACK_SECONDS


class Action(Struct, gc=False):
    """A settle, extend or release of one hand-out."""

    verb: str
    began: float
    seconds: float
    ended: float | None = None
    outcome: str | None = None

    @property
    def may_have_happened(self) -> bool:
        return self.outcome in (OK, records.UNKNOWN, None)

    def __str__(self) -> str:
        return f"{self.verb} at {at(self.began)} to {at(self.ended)}"


class HandOut(Struct):
    """A message in a claim's answer, and what its consumer did with it."""

    message: Message
    handed: records.Handed
    subscription: str
    answer: tuple[str, int]
    """Messages of one answer have it in common."""
    asked: float
    at: float
    timeout: float
    actions: list[Action] = field(default_factory=list)

    @property
    def receives(self) -> int:
        return self.handed.receives

    @property
    def settles(self) -> list[Action]:
        return [action for action in self.actions if action.verb == SETTLE]

    @property
    def settled_at(self) -> float | None:
        """When the consumer was told that it is settled."""
        return min((one.ended for one in self.settles if one.outcome == OK and one.ended), default=None)

    def held_until(self, before: Action | None = None) -> float:
        """Until then, for certain, the consumer held it (as far as it had acted `before` an action)."""
        until = self.asked + self.timeout - SLACK_SECONDS
        for action in self.actions:
            if action is before:
                break
            if action.verb == EXTEND and action.outcome == OK:
                until = action.began + action.seconds - SLACK_SECONDS
            elif action.verb != EXTEND and action.may_have_happened:
                until = min(until, action.began)
        return until

    def run_out_by(self, before: Action) -> float:
        """From then on, for certain, the hold had run out (as far as the consumer had acted `before` an action)."""
        ends = [self.at + self.timeout]
        for action in self.actions:
            if action is before:
                break
            if action.verb == EXTEND and action.may_have_happened:
                ends.append(NEVER if action.ended is None else action.ended + action.seconds)
        return max(ends) + SLACK_SECONDS

    def __str__(self) -> str:
        return (
            f"{self.message.name} ({self.subscription}, sequence {self.handed.sequence}, receives {self.receives}) "
            f"handed out at {at(self.asked)} to {at(self.at)} for {self.timeout} s by {self.answer[0]}"
        )


class History:
    """Everything that was written down in a run."""

    def __init__(self, streams: Streams):
        self.streams = streams
        self.messages: dict[str, Message] = {}
        self.unpublished: list[HandOut] = []
        """Hand-outs of what nobody ever published."""
        self.happened: Counter[str] = Counter()
        self.troubles: list[str] = []

    def add_publishes(self, told: Iterable[records.Record]) -> None:
        """Of one process. All publishes come first: a process may be handed what another published."""
        publishing: dict[int, list[tuple[Message, Publish]]] = {}
        for record in told:
            if isinstance(record, records.Publishing):
                publishing[record.call] = [self._published(one, record) for one in record.messages]
            elif isinstance(record, records.Published):
                _answered(publishing.pop(record.call), record)

    def add_hand_outs(self, source: str, told: Iterable[records.Record]) -> None:
        """Of one process, with what became of them."""
        acting: dict[int, Action] = {}
        answers: dict[int, list[HandOut]] = {}
        for record in told:
            if isinstance(record, records.HandedOut):
                answers[record.call] = [self._handed_out(one, source, record) for one in record.messages]
            elif isinstance(record, records.Acting):
                action = acting[record.call] = Action(record.verb, record.at, record.seconds)
                answers[record.answer][record.index].actions.append(action)
            elif isinstance(record, records.Acted):
                action = acting.pop(record.call)
                action.ended, action.outcome = record.at, record.outcome
            elif isinstance(record, records.Happened):
                self._note(record)

    def _published(self, one: records.Outgoing, record: records.Publishing) -> tuple[Message, Publish]:
        message = self.messages.get(one.name)
        if message is None:
            message = self.messages[one.name] = Message(one.name, record.topic, one.key, one.expires_in)
        publish = Publish(record.at, None, None, None)
        message.publishes.append(publish)
        return message, publish

    def _handed_out(self, one: records.Handed, source: str, record: records.HandedOut) -> HandOut:
        message = self.messages.get(one.name)
        if message is None:
            message = self.messages[one.name] = Message(one.name, "", one.key, None)
        answer = (source, record.call)
        given = HandOut(message, one, record.subscription, answer, record.asked, record.at, record.timeout)
        if not message.publishes:
            self.unpublished.append(given)
        message.handed.setdefault(record.subscription, []).append(given)
        return given

    def _note(self, record: records.Happened) -> None:
        self.happened[record.what] += 1
        if record.what == records.TROUBLE:
            self.troubles.append(record.text)

    def sort(self) -> None:
        """Once everything was added."""
        for given in self.by_subscription():
            given.sort(key=lambda one: (one.at, one.receives))

    def hand_outs(self) -> Iterable[HandOut]:
        return (one for given in self.by_subscription() for one in given)

    def by_subscription(self) -> Iterable[list[HandOut]]:
        """The hand-outs of each message to each subscription, in the order of their answers."""
        return (given for message in self.messages.values() for given in message.handed.values())

    def acknowledged(self) -> list[Message]:
        return [message for message in self.messages.values() if message.acknowledged]


def _answered(publishes: list[tuple[Message, Publish]], record: records.Published) -> None:
    stored = record.stored or [None] * len(publishes)
    for (_, publish), one in zip(publishes, stored, strict=True):
        publish.ended, publish.outcome, publish.stored = record.at, record.outcome, one


def read(streams: Streams, directory: Path) -> History:
    """The history that the processes of a run wrote into a folder."""
    history = History(streams)
    files = sorted(directory.glob(f"*{records.SUFFIX}"))
    for path in files:
        history.add_publishes(records.read(path))
    for path in files:
        history.add_hand_outs(path.stem, records.read(path))
    history.sort()
    return history


def at(moment: float | None) -> str:
    return "no answer" if moment is None else f"{moment:.3f}"
