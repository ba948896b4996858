"""The SQLite dialect: one file, calls made inline on the event loop, several processes at once."""

from __future__ import annotations

from rowlock.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
