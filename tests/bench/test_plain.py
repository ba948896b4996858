"""The plain side does what it is said to do, on every database: else Rowlock would be compared with nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.conftest import STORES

from rowlock.bench.plain.port import Plain
from rowlock.bench.servers import SERVERS, Server
from rowlock.localservers import ServerMissing

NAMES = {"sqlite": "sqlite", "postgres": "postgresql", "mariadb": "mariadb"}


@pytest.fixture(params=STORES, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = SERVERS[NAMES[request.param]]()
    try:
        server.start()
    except ServerMissing as error:
        pytest.skip(str(error))
    yield server
    server.close()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture
async def plain(server: Server, url: str) -> AsyncIterator[Plain]:
    connection = await server.plain(url)
    await connection.create()
    yield connection
    await connection.close()


async def test_the_queue_hands_out_each_row_once(plain: Plain) -> None:
    await plain.put([b"a", b"b", b"c"])
    first, second = await plain.take(2), await plain.take(2)
    assert len(first) == 2
    assert len({*first, *second}) == 3
    assert list(await plain.take(2)) == []


async def test_what_is_deleted_or_extended_is_not_handed_out(plain: Plain) -> None:
    await plain.put([b"a", b"b"])
    taken = await plain.take(2)
    await plain.delete(taken[:1])
    await plain.extend(taken[1:])
    assert list(await plain.take(2)) == []


async def test_inserting_twice_continues(plain: Plain) -> None:
    """The rows' key is (part, seq): what began again at 1 would be refused."""
    await plain.insert([b"a", b"b"])
    await plain.insert([b"c"])


async def test_two_connections_do_not_wait_for_each_other(server: Server, url: str, plain: Plain) -> None:
    await plain.put([b"a", b"b"])
    other = await server.plain(url)
    assert len({*await plain.take(1), *await other.take(1)}) == 2
    await other.close()


async def test_statements_are_counted(server: Server, plain: Plain) -> None:
    with server.count_statements() as count:
        before = None if count is None else count()
        await plain.put([b"a"])
        await plain.take(1)
        after = None if count is None else count()
    if before is not None and after is not None:
        assert 2 <= after - before <= 10


async def test_a_snapshot_is_held_until_its_end(server: Server, url: str, plain: Plain) -> None:
    async with server.snapshot(url):
        await plain.put([b"a"])
    assert len(await plain.take(1)) == 1


def test_the_version_says_that_commits_are_flushed(server: Server) -> None:
    assert any(said in server.version() for said in ("fsync on", "synchronous full", "trx_commit 1"))
