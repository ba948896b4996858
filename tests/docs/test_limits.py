"""Limits that the documents tell are those of the code."""

from __future__ import annotations

import re

import pytest

from rowlock import limits
from rowlock.broker import background
from rowlock.store.mariadb.store import MariadbStore
from rowlock.store.postgres.store import PostgresStore
from rowlock.store.sqlite.store import SqliteStore

from .pages import ROOT

TOLD = [
    ("docs/design.md", f"{limits.CYCLE_BYTES >> 20} MiB and {limits.CYCLE_MESSAGES:,} messages a cycle"),
    ("docs/design.md", f"{limits.CLAIM_BATCH_MESSAGES:,} messages a claim"),
    ("docs/design.md", f"{limits.IN_FLIGHT_DEFAULT_MESSAGES:,} in flight for each"),
    ("docs/design.md", f"{limits.WAITERS_PER_PROCESS_COUNT:,} waiting claims a process"),
    ("docs/design.md", f"look-ahead ({limits.LOOK_AHEAD_DEFAULT_MESSAGES:,})"),
    ("docs/design.md", f"patience ({limits.PATIENCE_SECONDS:g} s"),
    ("docs/design.md", f"deadline ({limits.CYCLE_DEADLINE_SECONDS:g} s)"),
    ("docs/design.md", f"ends its session after {limits.LOCK_HOLD_SECONDS} s"),
    ("docs/design.md", f"takes the lease after {background.LEASE_MS // 1000} s"),
    ("docs/design.md", f"{limits.ERA_CHANGES} for each page, {limits.WRITER_TURNS} for each writer"),
    ("docs/design.md", f"wait for up to {limits.WAIT_MAX_SECONDS} s"),
    ("docs/design.md", f"every second with hints, every {SqliteStore.hint_poll_ms} ms without"),
    ("docs/locking.md", f"tried again, up to {limits.RETRY_COUNT} times"),
    ("docs/adr/0004-pages-of-slots.md", f"{limits.PAGE_MESSAGES} slots"),
    ("docs/adr/0005-stamps-and-eras.md", f"After {limits.ERA_CHANGES} changes"),
    ("docs/adr/0006-chain-of-turns.md", f"after {limits.WRITER_TURNS} turns"),
    ("docs/adr/0008-delayed-messages.md", f"{limits.MOVE_STEP_MESSAGES} in a step"),
    ("docs/adr/0011-background-sweeps.md", f"a lease ({background.LEASE_MS // 1000} s"),
    ("docs/adr/0011-background-sweeps.md", f"every {background.STEP_SECONDS:g} seconds"),
    ("docs/adr/0011-background-sweeps.md", f"{background.TRIM_MESSAGES:,} acknowledged messages"),
]


@pytest.mark.parametrize(("page", "told"), TOLD)
def test_what_is_told_is_so(page: str, told: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / page).read_text("utf-8"))
    assert told in text


def test_how_often_stores_are_asked_for_all_who_wait() -> None:
    assert SqliteStore.hint_poll_ms == MariadbStore.hint_poll_ms
    assert PostgresStore.hint_poll_ms == 1000
