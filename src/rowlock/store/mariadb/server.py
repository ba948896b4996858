"""What a server is and how it is set up; what that rules out; and the settings of every session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from rowlock import limits
from rowlock.errors import ServerTooOld, ServerUnsafe
from rowlock.store.faults import Lost, NotReplicated
from rowlock.store.port import Durability

if TYPE_CHECKING:
    from collections.abc import Iterable

OLDEST_MARIADB = (10, 6)
OLDEST_MYSQL = (8, 0)
OFF = ("0", "OFF")

VARIABLES = """
SHOW VARIABLES WHERE Variable_name IN (
    'version', 'max_allowed_packet', 'read_only', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite',
    'log_bin', 'sync_binlog', 'binlog_format'
)"""

_COMMON_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    # UNIX_TIMESTAMP(SYSDATE()) goes through local time, which in autumn has an hour twice.
    "SET time_zone = '+00:00'",
    f"SET innodb_lock_wait_timeout = {limits.LOCK_HOLD_SECONDS}",
    f"SET net_read_timeout = {limits.LOCK_HOLD_SECONDS}, net_write_timeout = {limits.LOCK_HOLD_SECONDS}",
)
# MySQL has nothing like it: a broker that was stopped between lock and commit holds its locks there until it goes on,
# or until the network's keepalive finds its machine gone.
_MARIADB_SETTINGS = (f"SET idle_transaction_timeout = {limits.LOCK_HOLD_SECONDS}",)


class Server(Struct):
    """A server's version and variables, read at every connect: after a failover it is another server."""

    version: str
    variables: dict[str, str]

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.version.lower()

    @property
    def max_allowed_packet(self) -> int:
        return int(self.variables["max_allowed_packet"])

    def settings(self) -> tuple[str, ...]:
        return _COMMON_SETTINGS + (_MARIADB_SETTINGS if self.is_mariadb else ())

    def check(self, durability: Durability) -> None:
        """Raise what speaks against keeping messages of this durability here."""
        self._check_version()
        if self.variables.get("read_only", "OFF").upper() not in OFF:
            raise Lost(f"the server is read-only (read_only = {self.variables['read_only']})")
        if durability is Durability.REPLICATED:
            raise NotReplicated("replicated durability needs PostgreSQL: here no standby is waited for")
        # RELAXED is taken as the server is set: a session cannot commit less strictly than the server does.
        if durability is Durability.LOCAL:
            self._check_safe()

    def _check_version(self) -> None:
        name, oldest = ("MariaDB", OLDEST_MARIADB) if self.is_mariadb else ("MySQL", OLDEST_MYSQL)
        found = tuple(int(number) for number in re.findall(r"\d+", self.version)[:2])
        if found < oldest:
            needed = ".".join(map(str, oldest))
            raise ServerTooOld(f"the server is {name} {self.version}, and Rowlock needs {name} {needed} or newer")

    def _check_safe(self) -> None:
        for name, wanted, why in self._needs():
            value = self.variables.get(name, wanted[0])
            if value.upper() not in wanted:
                raise ServerUnsafe(f"the server has {name} = {value}, and {why}: set it to {wanted[0]}")

    def _needs(self) -> Iterable[tuple[str, tuple[str, ...], str]]:
        loses = "would lose acknowledged messages when its machine fails"
        yield "innodb_flush_log_at_trx_commit", ("1",), loses
        yield "innodb_doublewrite", ("ON", "1", "DETECT_AND_RECOVER"), "cannot repair a page that was half written"
        if self.variables.get("log_bin", "OFF").upper() not in OFF:
            yield "sync_binlog", ("1",), loses
            yield "binlog_format", ("ROW", "MIXED"), "cannot log changes made in READ COMMITTED"


def server_of(rows: Iterable[tuple[str, str]]) -> Server:
    variables = dict(rows)
    return Server(variables["version"], variables)
