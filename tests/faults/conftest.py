"""Servers that a test may kill, stop, and change the settings of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rowlock.localservers import LocalMariadb, LocalPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowlock.localservers import LocalServer

KINDS: dict[str, type[LocalServer]] = {"postgres": LocalPostgres, "mariadb": LocalMariadb}


@pytest.fixture(scope="session")
def mortal_servers(request: pytest.FixtureRequest) -> Iterator[dict[str, LocalServer]]:
    """Apart from those that other tests share."""
    servers: dict[str, LocalServer] = {}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(params=list(KINDS))
def mortal(request: pytest.FixtureRequest, mortal_servers: dict[str, LocalServer]) -> Iterator[LocalServer]:
    """A running server, on each database that has one, with `mortal_url` as an empty database on it."""
    request.getfixturevalue(f"{request.param}_server")  # skips, or fails in CI, where the programs are missing
    server = mortal_servers.setdefault(request.param, KINDS[request.param]())
    server.start()
    yield server
    server.start()
    server.resume()


@pytest.fixture
def mortal_url(mortal: LocalServer) -> Iterator[str]:
    url = mortal.create_database()
    yield url
    mortal.start()
    mortal.resume()
    mortal.drop_database(url)
