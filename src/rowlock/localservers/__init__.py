"""Database servers of one's own in temporary folders, for simulations, benchmarks and tests."""

from rowlock.localservers.mariadb import LocalMariadb
from rowlock.localservers.postgres import LocalPostgres, LocalStandby
from rowlock.localservers.server import LocalServer, ServerFailed, ServerMissing

__all__ = ["LocalMariadb", "LocalPostgres", "LocalServer", "LocalStandby", "ServerFailed", "ServerMissing"]
