"""Connections to PostgreSQL: how they are made, and what a server must have."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from rowlock import limits
from rowlock.errors import ServerTooOld, ServerUnsafe
from rowlock.store.faults import Lost, NotReplicated
from rowlock.store.port import Durability
from rowlock.store.postgres.errors import fault_of
from rowlock.store.postgres.guard import call

if TYPE_CHECKING:
    from asyncpg import Connection

CONNECT_SECONDS = 5.0
"""For each host."""
NEEDED_VERSION = 120000

SYNCHRONOUS_COMMIT = {Durability.LOCAL: "local", Durability.REPLICATED: "on", Durability.RELAXED: "off"}

EVERYWHERE = {"application_name": "rowlock", "default_transaction_isolation": "read committed"}

KEYED_PLANS = {
    # The cycle's statements are all answered from primary keys, whatever the statistics say today; planned once.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}


def bounded_holds() -> dict[str, str]:
    """Settings that make the server end a session whose client stands still or went away without a word."""
    hold = limits.LOCK_HOLD_SECONDS
    return {
        "idle_in_transaction_session_timeout": f"{hold}s",
        "tcp_user_timeout": f"{hold}s",
        "tcp_keepalives_idle": "2",
        "tcp_keepalives_interval": "1",
        "tcp_keepalives_count": str(max(1, hold - 2)),
        # Ends before the client's deadline does: a session whose client gave up must not stay in the queue for a lock.
        "lock_timeout": f"{int(limits.CYCLE_DEADLINE_SECONDS * 500)}ms",
    }


async def connect(url: str, settings: dict[str, str]) -> Connection:
    """A connection to the host of the URL that accepts writes.

    Each host has a time of its own: the driver has one for all of them, and a host that stands still would use it up.
    """
    *others, last = each_host(url)
    for host in others:
        with suppress(Lost):
            return await _connect(host, settings)
    return await _connect(last, settings)


async def _connect(url: str, settings: dict[str, str]) -> Connection:
    try:
        connection: Connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            target_session_attrs="read-write",
            max_cached_statement_lifetime=0,
            server_settings={**EVERYWHERE, **settings},
        )
    except Exception as error:
        raise fault_of(error) from error
    return connection


def each_host(url: str) -> list[str]:
    """A URL that names several hosts, before its path or in the option `host`, as one URL for each."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    if "," in place:
        return [urlunsplit(parts._replace(netloc=f"{user}{at}{host}")) for host in place.split(",")]
    options = dict(parse_qsl(parts.query))
    hosts, ports = (options.get(name, "").split(",") for name in ("host", "port"))
    if len(hosts) == 1:
        return [url]
    pairs = zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True)
    return [urlunsplit(parts._replace(query=urlencode(options | {"host": host, "port": port}))) for host, port in pairs]


async def check_server(connection: Connection, durability: Durability) -> None:
    """Refuse a server that is too old or would lose what was acknowledged."""
    version, fsync, full_page_writes, standbys = await call(
        connection,
        connection.fetchrow(
            "select current_setting('server_version_num')::int, current_setting('fsync'), "
            "current_setting('full_page_writes'), current_setting('synchronous_standby_names')"
        ),
    )
    if version < NEEDED_VERSION:
        raise ServerTooOld(
            f"PostgreSQL {version // 10000} is too old: Rowlock needs {NEEDED_VERSION // 10000} or newer"
        )
    if durability is Durability.RELAXED:
        return
    for name, value in (("fsync", fsync), ("full_page_writes", full_page_writes)):
        if value != "on":
            raise ServerUnsafe(
                f"the PostgreSQL server has {name} = {value} and may lose acknowledged messages; "
                f"turn it on, or use the durability 'relaxed'"
            )
    if durability is Durability.REPLICATED:
        await _check_standby(connection, standbys)


async def _check_standby(connection: Connection, standbys: str) -> None:
    if not standbys:
        raise NotReplicated("replicated durability needs a synchronous standby: synchronous_standby_names is empty")
    streaming = await call(
        connection,
        connection.fetchval(
            "select count(*) from pg_stat_replication where state = 'streaming' and sync_state in ('sync', 'quorum')"
        ),
    )
    if not streaming:
        raise NotReplicated(f"no synchronous standby is streaming (synchronous_standby_names = {standbys!r})")


def rows_changed(status: str) -> int:
    """The number in a command's status, such as `DELETE 5`."""
    return int(status.rpartition(" ")[2])
