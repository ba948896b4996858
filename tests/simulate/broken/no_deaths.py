"""Not the ledger: consumers that were asked to die do not."""

from rowlock.simulate import consumer

consumer.DEATHS_SHARE = 0
