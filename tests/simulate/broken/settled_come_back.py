"""Every now and then a settle is acknowledged and forgotten."""

import random

from rowlock.ledger.ledger import Ledger
from rowlock.ledger.rules import Verdict

_settle = Ledger.settle


def _forgetful(self: Ledger, seq: int, claim: int) -> Verdict:
    if random.random() < 0.05:
        return Verdict.DONE
    return _settle(self, seq, claim)


Ledger.settle = _forgetful  # type: ignore[method-assign]
