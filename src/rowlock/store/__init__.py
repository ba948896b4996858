"""Databases: one module per dialect behind `store.port`, chosen by the scheme of a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rowlock.errors import InvalidArgument

if TYPE_CHECKING:
    from rowlock.store.port import Store


def connect(url: object) -> Store:
    """The store behind a URL; nothing is opened yet. A dialect's driver is imported only when it is used."""
    if not isinstance(url, str):
        raise InvalidArgument(f"The database's address is {url!r:.80}: it must be text.")
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        from rowlock.store.sqlite import SqliteStore

        return SqliteStore(url)
    if scheme in ("postgresql", "postgres"):
        from rowlock.store.postgres import PostgresStore

        return PostgresStore(url)
    if scheme in ("mysql", "mariadb"):
        from rowlock.store.mariadb import MariadbStore

        return MariadbStore(url)
    raise InvalidArgument(
        f"{scheme or 'An address without a scheme'} is no kind of database: use sqlite:///file.db, postgresql://... "
        "or mysql://..."
    )
