"""Databases for tests: each server is started once, when it is first needed; each test gets a database of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from rowlock.localservers import LocalMariadb, LocalPostgres, ServerMissing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rowlock.localservers import LocalServer

STORES = ("sqlite", "postgres", "mariadb")

# A shared machine is slow at times, which is not the code's fault: pytest's own timeout bounds a test.
_patient = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _patient, max_examples=25)
settings.register_profile("full", _patient, max_examples=200)
settings.register_profile("soak", _patient, max_examples=2_000)
settings.load_profile("full")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stores", default=",".join(STORES), help=f"Databases to test on (default: {','.join(STORES)}).")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set(STORES).difference(config.getoption("--stores").split(","))
    dropped = [item for item in items if left_out & _stores_of(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def _stores_of(item: pytest.Item) -> set[str]:
    """The databases that a test needs: by its fixtures, or by a parameter such as that of `store_url`."""
    fixtures = set(getattr(item, "fixturenames", ()))
    named = {store for store in STORES if fixtures & {f"{store}_url", f"{store}_server"}}
    callspec = getattr(item, "callspec", None)
    return named | {store for store in STORES if callspec and store in callspec.params.values()}


def _running(kind: type[LocalServer]) -> Iterator[LocalServer]:
    server = kind()
    try:
        server.start()
        yield server
    except ServerMissing as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    finally:
        server.close()


def _database(server: LocalServer) -> Iterator[str]:
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalServer]:
    yield from _running(LocalPostgres)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[LocalServer]:
    yield from _running(LocalMariadb)


@pytest.fixture
def postgres_url(postgres_server: LocalServer) -> Iterator[str]:
    yield from _database(postgres_server)


@pytest.fixture
def mariadb_url(mariadb_server: LocalServer) -> Iterator[str]:
    yield from _database(mariadb_server)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rowlock.db'}"


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, once for each database that Rowlock knows."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
