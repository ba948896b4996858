"""Anybody may settle."""

from rowlock.ledger.ledger import Ledger
from rowlock.ledger.page import Grant
from rowlock.ledger.rules import Verdict


def _trusting(self: Ledger, seq: int, claim: int) -> tuple[Grant | None, Verdict]:
    grant = self.grant_of(seq)
    return grant, Verdict.GONE if grant is None else Verdict.DONE


Ledger._of_claimant = _trusting  # type: ignore[method-assign]
