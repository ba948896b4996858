"""The store on MariaDB (10.6 or newer), and on MySQL (8.0 or newer; not tested yet)."""

from rowlock.store.mariadb.store import MariadbStore

__all__ = ["MariadbStore"]
