"""The database is full: publishes are refused, what makes room goes on, health says so, and nothing breaks."""

from __future__ import annotations

import asyncio
import resource
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rowlock
from rowlock.errors import OutcomeUnknown, StorageFull, Unavailable
from rowlock.localservers import LocalMariadb
from rowlock.server.probe import BrokerProbe

from .load import log_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from rowlock import Broker

BODY_BYTES = 100_000


@pytest.fixture
async def broker(sqlite_url: str) -> AsyncIterator[Broker]:
    async with rowlock.open(sqlite_url, owner="tester", patience=0.5) as broker:
        await broker.create_queue("q", max_message_bytes=2 * BODY_BYTES)
        await broker.publish("q", [b"one", b"two", b"three"])
        yield broker


def set_pages(broker: Broker, most: int) -> None:
    (cycle,) = broker._engine.cycles.values()
    assert cycle._lane is not None
    cycle._lane._connection.run(f"pragma max_page_count = {most}")  # type: ignore[attr-defined]


async def health(broker: Broker) -> str:
    try:
        await BrokerProbe(broker._engine, broker._delivery).health()
    except Unavailable as trouble:
        return str(trouble)
    return "good"


async def fill(broker: Broker, messages: int = 200) -> int:
    """Publish until it is refused; how many were stored."""
    for stored in range(messages):
        try:
            await broker.publish("q", bytes(BODY_BYTES))
        except StorageFull:
            return stored
    raise AssertionError("it never became full")


async def test_a_file_that_may_not_grow_refuses_publishes_and_goes_on_with_the_rest(broker: Broker) -> None:
    set_pages(broker, 200)
    stored = await fill(broker)
    with pytest.raises(StorageFull, match="cannot store any more"):
        await broker.publish("q", bytes(BODY_BYTES))
    assert "cannot store any more" in await health(broker)
    for body in (b"one", b"two", b"three"):
        (message,) = await broker.claim("q", visibility_timeout=600)
        assert message.body == body
        await message.settle()
    assert len(await log_of(broker, "q")) == 3 + stored
    set_pages(broker, 100_000)
    await broker.publish("q", b"there is room again")
    assert await health(broker) == "good"


async def test_one_publish_that_does_not_fit_fails_no_other_verb_of_its_cycle(broker: Broker) -> None:
    set_pages(broker, 200)
    await fill(broker)
    publishing = asyncio.create_task(broker.publish("q", bytes(BODY_BYTES)))
    claiming = asyncio.create_task(broker.claim("q", visibility_timeout=600))
    assert [message.body for message in await claiming] == [b"one"]
    with pytest.raises(StorageFull):
        await publishing


@contextmanager
def files_bounded(size: int) -> Iterator[None]:
    """No file of this process may grow beyond that: writes fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def wal_bytes(url: str) -> int:
    return Path(url.removeprefix("sqlite:///") + "-wal").stat().st_size


async def test_a_full_disk_refuses_and_is_got_over(broker: Broker, sqlite_url: str) -> None:
    """Nothing can be written, settles included: every verb ends with an error, and afterwards all is well.

    SQLite cannot say what became of a commit that it could not write; nor can the broker, while it cannot write.
    """
    (one,) = await broker.claim("q", visibility_timeout=600)
    with files_bounded(wal_bytes(sqlite_url)):
        for verb in (broker.publish("q", b"perhaps"), broker.claim("q"), one.settle()):
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await verb
        assert await health(broker) != "good"
    await one.settle()
    await broker.publish("q", b"four")
    assert await health(broker) == "good"
    log = [message.body for message in await log_of(broker, "q")]
    assert log in ([b"one", b"two", b"three", b"four"], [b"one", b"two", b"three", b"perhaps", b"four"])
    found = await broker.claim("q", 10, visibility_timeout=600)
    assert [message.body for message in found] == log[1:]


async def test_a_full_tablespace_of_mariadb(mariadb_url: str) -> None:
    """`mariadb_url` skips where MariaDB is missing; the server is one with a tablespace that cannot grow."""
    settings = {"innodb_file_per_table": 0, "innodb_data_file_path": "ibdata1:12M:autoextend:max:16M"}
    with LocalMariadb(settings=settings) as server:
        async with rowlock.open(server.url, owner="tester") as broker:
            await broker.create_queue("q", max_message_bytes=2 * BODY_BYTES)
            await broker.publish("q", [b"one", b"two"])
            await fill(broker)
            assert "cannot store any more" in await health(broker)
            # There may be no room for a claim's own rows either; whichever it is, it is said.
            with suppress(StorageFull):
                (one,) = await broker.claim("q", visibility_timeout=600)
                assert one.body == b"one"
            assert (await log_of(broker, "q"))[0].body == b"one"
