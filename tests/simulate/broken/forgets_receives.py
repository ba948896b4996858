"""Every hand-out is said to be the first."""

from collections.abc import Mapping

from rowlock.ledger.ledger import Ledger
from rowlock.ledger.rules import Logged, Run

_claim = Ledger.claim


def _forgetful(
    self: Ledger, log: Mapping[int, Logged], last: int, limit: int, visible_at: int, claim: int
) -> list[Run]:
    runs = _claim(self, log, last, limit, visible_at, claim)
    return [run._replace(receives=1) for run in runs]


Ledger.claim = _forgetful  # type: ignore[method-assign]
