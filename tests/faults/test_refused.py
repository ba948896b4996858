"""Servers that are too old or set up to lose messages, and schemas from the future: refused, with a sentence."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import rowlock
from rowlock.errors import SchemaTooNew, ServerTooOld, ServerUnsafe
from rowlock.localservers import LocalMariadb, LocalPostgres
from rowlock.store.mariadb import server as mariadb_server_facts
from rowlock.store.postgres import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.localservers import LocalServer

UNSAFE: dict[str, tuple[type[LocalServer], dict[str, object]]] = {
    "fsync = off": (LocalPostgres, {"fsync": "off"}),
    "full_page_writes = off": (LocalPostgres, {"full_page_writes": "off"}),
    "innodb_flush_log_at_trx_commit = 2": (LocalMariadb, {"innodb_flush_log_at_trx_commit": 2}),
}


@pytest.fixture(params=UNSAFE)
def unsafe(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """What is wrong with a server, and its address."""
    kind, settings = UNSAFE[request.param]
    request.getfixturevalue(f"{kind.name}_server")
    with kind(settings=settings) as server:
        yield request.param, server.url


async def test_an_unsafe_server_is_refused_for_messages_that_must_be_kept(unsafe: tuple[str, str]) -> None:
    wrong, url = unsafe
    async with rowlock.open(url, owner="tester") as broker:
        with pytest.raises(ServerUnsafe, match=wrong):
            await broker.create_queue("q")


async def test_a_server_that_became_unsafe_is_refused_at_the_next_connection(mariadb_server: LocalServer) -> None:
    """At once: waiting would not help."""
    url = mariadb_server.create_database()
    try:
        async with rowlock.open(url, owner="tester") as broker:
            await broker.create_queue("q")
        mariadb_server.sql("set global innodb_flush_log_at_trx_commit = 2")
        async with rowlock.open(url, owner="tester") as broker:
            with pytest.raises(ServerUnsafe, match="innodb_flush_log_at_trx_commit = 2"):
                await broker.publish("q", b"refused")
            with pytest.raises(ServerUnsafe, match="innodb_flush_log_at_trx_commit = 2"):
                await broker.claim("q", wait=20)
    finally:
        mariadb_server.sql("set global innodb_flush_log_at_trx_commit = 1")
        mariadb_server.drop_database(url)


async def test_an_old_postgresql_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "NEEDED_VERSION", 990000)
    with pytest.raises(ServerTooOld, match=r"PostgreSQL \d+ is too old: Rowlock needs 99 or newer"):
        await rowlock.open(postgres_url, owner="tester").open()


async def test_an_old_mariadb_is_refused(mariadb_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mariadb_server_facts, "OLDEST_MARIADB", (99, 1))
    with pytest.raises(ServerTooOld, match=r"MariaDB \d+.*needs MariaDB 99\.1 or newer"):
        await rowlock.open(mariadb_url, owner="tester").open()


@pytest.mark.parametrize(
    ("store", "newer"),
    [
        ("sqlite", "update rowlock_meta set value = 99 where name = 'schema_version'"),
        ("postgres", "update rowlock.meta set number = 99 where name = 'schema_version'"),
        ("mariadb", "update rowlock_lanes set version = 99 where lane = 0"),
    ],
)
async def test_a_newer_schema_is_refused(request: pytest.FixtureRequest, store: str, newer: str) -> None:
    url = request.getfixturevalue(f"{store}_url")
    await (await rowlock.open(url, owner="tester").open()).close()
    if store == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
            database.execute(newer)
            database.commit()
    else:
        server: LocalServer = request.getfixturevalue(f"{store}_server")
        server.sql(newer, server._database_of(url))
    with pytest.raises(SchemaTooNew, match="version 99"):
        await rowlock.open(url, owner="tester").open()
