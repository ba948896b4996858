"""The database servers that a run measures, each started for it."""

from rowlock.bench.servers.mariadb import MariadbServer
from rowlock.bench.servers.port import Server
from rowlock.bench.servers.postgres import PostgresServer
from rowlock.bench.servers.sqlite import SqliteServer

SERVERS: dict[str, type[Server]] = {
    "postgresql": PostgresServer,
    "sqlite": SqliteServer,
    "mariadb": MariadbServer,
}

__all__ = ["SERVERS", "Server"]
