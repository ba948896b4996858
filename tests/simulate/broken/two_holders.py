"""A hold lasts a moment only, whatever its claimant was told."""

from collections.abc import Mapping

from rowlock.ledger.ledger import Ledger
from rowlock.ledger.rules import Logged, Run

_claim = Ledger.claim


def _short(self: Ledger, log: Mapping[int, Logged], last: int, limit: int, visible_at: int, claim: int) -> list[Run]:
    return _claim(self, log, last, limit, min(visible_at, self.at + 5), claim)


Ledger.claim = _short  # type: ignore[method-assign]
