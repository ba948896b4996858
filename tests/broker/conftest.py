"""A broker, a second one on the same database, and the rig that holds their clock and their stops.

A server's database is made once and emptied after each test: making it takes longer than most of the tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from rowlock import Broker
from rowlock.localservers import LocalServer

from .emptying import empty
from .rig import Rig

Database = Callable[[str, int], str]

three_lanes = pytest.mark.parametrize("lanes", [1, 3])


@pytest.fixture
def lanes() -> int:
    """How many lanes the database has."""
    return 1


@pytest.fixture(scope="session")
def shared_database(request: pytest.FixtureRequest) -> Database:
    """The database of a server that tests with so many lanes share, one after the other."""
    made: dict[tuple[str, int], str] = {}

    def database(store: str, lanes: int) -> str:
        if (store, lanes) not in made:
            server: LocalServer = request.getfixturevalue(f"{store}_server")
            made[store, lanes] = server.create_database()
        return made[store, lanes]

    return database


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
async def store_url(
    request: pytest.FixtureRequest, lanes: int, shared_database: Database, tmp_path: Path
) -> AsyncIterator[str]:
    """The URL of an empty database, once for each database that Rowlock knows."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'rowlock.db'}"
        return
    url = shared_database(request.param, lanes)
    yield url
    await empty(url)


@pytest.fixture
async def rig(store_url: str, lanes: int) -> AsyncIterator[Rig]:
    rig = Rig(store_url, lanes)
    yield rig
    await rig.close()
    assert not rig.trespasses, "a transaction has one lane's tables only"


@pytest.fixture
async def broker(rig: Rig) -> Broker:
    return await rig.open()


@pytest.fixture
async def other(rig: Rig, broker: Broker) -> Broker:
    """A second broker on the same database."""
    return await rig.open()
