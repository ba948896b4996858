"""Ordered subscriptions are served as if they were not."""

import msgspec

from rowlock.ledger import ledger
from rowlock.ledger.rules import Rules

_init = ledger.Ledger.__init__


def _unordered(self: ledger.Ledger, rules: Rules, frontier: int = 1) -> None:
    _init(self, msgspec.structs.replace(rules, order="none"), frontier)


ledger.Ledger.__init__ = _unordered  # type: ignore[method-assign]
