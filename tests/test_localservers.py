"""Local servers: they start, survive a crash with their data, drop databases in use, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import asyncmy
import asyncpg
import psutil
import pytest

from rowlock.localservers import (
    LocalMariadb,
    LocalPostgres,
    LocalServer,
    ServerFailed,
    ServerMissing,
    mariadb,
    postgres,
    processes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS: dict[str, type[LocalServer]] = {"postgres": LocalPostgres, "mariadb": LocalMariadb}
DEADLINE_SECONDS = 20.0


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> LocalServer:
    found: LocalServer = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture(params=["postgres", "mariadb"])
def own_server(request: pytest.FixtureRequest) -> Iterator[LocalServer]:
    """A server of the test's own, not started yet."""
    request.getfixturevalue(f"{request.param}_server")
    server = KINDS[request.param]()
    yield server
    server.close()


def test_each_database_is_fresh(server: LocalServer) -> None:
    urls = [server.create_database() for _ in range(2)]
    for url in urls:
        database = server._database_of(url)
        server.sql("create table message (seq int)", database)
        server.sql("insert into message values (1)", database)
        assert server.sql("select seq, seq + 1 from message", database) == "1\t2\n"
    for url in urls:
        server.drop_database(url)
        server.drop_database(url)


def test_a_refused_statement_is_an_error(server: LocalServer) -> None:
    with pytest.raises(ServerFailed, match="no_such_table"):
        server.sql("select * from no_such_table")


def test_commits_are_flushed(postgres_server: LocalServer, mariadb_server: LocalServer) -> None:
    assert postgres_server.sql("show fsync").strip() == "on"
    assert postgres_server.sql("show full_page_writes").strip() == "on"
    assert mariadb_server.sql("select @@innodb_flush_log_at_trx_commit").strip() == "1"


async def test_a_postgres_database_in_use_can_be_dropped(postgres_server: LocalServer) -> None:
    url = postgres_server.create_database()
    connection = await asyncpg.connect(url)
    await connection.execute("create table message (seq int)")
    await connection.execute("begin; insert into message values (1)")
    postgres_server.drop_database(url)
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError)):
        await connection.execute("commit")
    connection.terminate()


async def test_a_mariadb_database_in_use_can_be_dropped(mariadb_server: LocalServer) -> None:
    url = mariadb_server.create_database()
    database = mariadb_server._database_of(url)
    path = str(mariadb_server.socket)
    connection = await asyncmy.connect(unix_socket=path, user="root", database=database, autocommit=False)
    async with connection.cursor() as cursor:
        await cursor.execute("create table message (seq int) engine=innodb")
        await cursor.execute("insert into message values (1)")
    mariadb_server.drop_database(url)
    with pytest.raises(asyncmy.errors.Error):
        await connection.commit()
    connection.close()


def test_a_killed_server_comes_back_with_what_was_committed(own_server: LocalServer) -> None:
    with own_server as server:
        server.sql("create table message (seq int)")
        server.sql("insert into message values (7)")
        pid = server.pid
        assert pid is not None
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        server.kill()
        assert server.pid is None
        assert not any(processes._alive(member) for member in family)
        server.start()
        assert server.sql("select seq from message").strip() == "7"


def test_a_stopped_server_keeps_its_data_and_a_closed_one_leaves_nothing(own_server: LocalServer) -> None:
    with own_server as server:
        server.sql("create table message (seq int)")
        server.stop()
        server.stop()
        assert server.pid is None
        server.start()
        assert server.sql("select count(*) from message").strip() == "0"
    assert not own_server.directory.exists()


def test_settings_reach_the_server(own_server: LocalServer) -> None:
    own_server.settings["max_connections"] = 37
    with own_server as server:
        statement = "show max_connections" if server.name == "postgres" else "select @@max_connections"
        assert server.sql(statement).strip() == "37"


def test_a_wrong_setting_is_told_from_the_log(own_server: LocalServer) -> None:
    own_server.settings["no_such_setting"] = 1
    with pytest.raises(ServerFailed, match=r"no.such.setting"), own_server:
        pass
    assert not own_server.directory.exists()


def test_a_socket_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="longer than 100 bytes"):
        LocalPostgres(tmp_path / ("long" * 30))


def test_a_missing_program_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(mariadb, "SYSTEM_FOLDERS", ())
    with pytest.raises(ServerMissing, match="mariadb-server"), LocalMariadb():
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as somebody else")
@pytest.mark.usefixtures("postgres_server")
def test_programs_that_the_servers_user_cannot_read_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = postgres.programs(processes.server_user())
    may_run = postgres._may_run
    monkeypatch.setattr(postgres, "_may_run", lambda folder, user: folder != installed and may_run(folder, user))
    postgres.programs.cache_clear()
    with LocalPostgres() as server:
        assert postgres.programs(server._user) != installed
        assert server.sql("select 1").strip() == "1"
    postgres.programs.cache_clear()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_server_ends_with_the_process_that_started_it(own_server: LocalServer) -> None:
    program = f"""
import sys, time
from pathlib import Path
from rowlock.localservers import {type(own_server).__name__} as Kind
server = Kind(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""
    command = [sys.executable, "-c", program, str(own_server.directory)]
    environment = {**os.environ, "TMPDIR": str(own_server.directory)}  # a killed process removes nothing itself
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as starter:
        assert starter.stdout is not None
        server = psutil.Process(int(starter.stdout.readline()))
        starter.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while processes._alive(server):
        assert time.monotonic() < deadline, f"{server} outlives its starter"
        time.sleep(0.01)


def test_nothing_listens_on_the_network(server: LocalServer) -> None:
    assert server.pid is not None
    listening = [c for c in psutil.Process(server.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert listening == []
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.socket))
