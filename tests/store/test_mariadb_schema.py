"""MariaDB: the schema as it is made and migrated, views for people, and a catalog whose COMMIT went unanswered."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from rowlock.errors import InvalidArgument, SchemaTooNew
from rowlock.limits import LANES_COUNT
from rowlock.store.faults import Lost, Misuse
from rowlock.store.mariadb import MariadbStore
from rowlock.store.mariadb.address import parse
from rowlock.store.mariadb.connection import Connection, connect
from rowlock.store.port import Durability

from .catalog import entry
from .session import PART, SUB, Fixtures, Session, columns, page, partition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rowlock.store.port import Store

    from .session import NewStore, Reopen

ROUNDS = 3
OPENERS = 6


class OnMariadb(Fixtures):
    @pytest.fixture
    def new_store(self, mariadb_url: str) -> NewStore:
        return lambda: MariadbStore(mariadb_url)

    @pytest.fixture
    async def people(self, mariadb_url: str) -> AsyncIterator[Connection]:
        """Another client of the database."""
        connection = await connect(parse(mariadb_url), Durability.RELAXED)
        yield connection
        connection.drop()


async def tables(people: Connection) -> dict[str, str]:
    """Every table and view with its definition."""
    found = [name for (name,) in await people.rows("SHOW TABLES")]
    return {name: (await people.rows(f"SHOW CREATE TABLE {name}"))[0][1] for name in found}


class TestSchema(OnMariadb):
    async def test_a_newer_schema_is_refused(self, reopen: Reopen, people: Connection) -> None:
        await reopen()
        await people.run("UPDATE rowlock_lanes SET version = 99 WHERE lane = 0")
        with pytest.raises(SchemaTooNew, match="version 99"):
            await reopen()

    @pytest.mark.parametrize("lanes", [0, LANES_COUNT + 1])
    async def test_a_number_of_lanes_out_of_range(self, new_store: NewStore, lanes: int) -> None:
        with pytest.raises(InvalidArgument, match=f"not {lanes}"):
            await new_store().open(lanes)

    async def test_what_a_killed_process_left_half_made_is_completed(self, reopen: Reopen, people: Connection) -> None:
        """Also: steps that were made once can be made again, and give the same."""
        await reopen()
        whole = await tables(people)
        await people.run("DELETE FROM rowlock_lanes", "DROP TABLE rowlock_lane0_progress", "DROP VIEW rowlock_queues")
        await reopen()
        assert await tables(people) == whole

    async def test_many_open_at_once_with_different_lanes(self, new_store: NewStore, people: Connection) -> None:
        for number in range(ROUNDS):
            await people.run(*(f"DROP TABLE IF EXISTS {name}" for name in await tables(people) if "lane" in name))
            stores = [new_store() for _ in range(OPENERS)]
            await asyncio.gather(*(store.open(1 + n % 3) for n, store in enumerate(stores)))
            assert {"rowlock_lane2_messages", "rowlock_messages"} <= set(await tables(people)), number
            assert "lane2" in (await tables(people))["rowlock_messages"]
            for store in stores:
                await store.close()

    async def test_rights_on_one_database_are_enough(self, mariadb_url: str, people: Connection) -> None:
        address = parse(mariadb_url)
        user = f"only_{address.database[-12:]}"
        await people.run(
            f"CREATE USER {user}@localhost IDENTIFIED BY 'p@ss/w'",
            f"GRANT ALL ON `{address.database}`.* TO {user}@localhost",
        )
        who = f"{user}:{quote('p@ss/w', safe='')}"
        store = MariadbStore(f"mariadb://{who}@localhost/{address.database}?unix_socket={address.unix_socket}")
        await store.open(lanes=2)
        lane = await store.lane(1, Durability.LOCAL)
        await Session(lane).commit(partitions=[partition(PART)])
        await lane.close()
        await store.close()
        await people.run(f"DROP USER {user}@localhost")

    async def test_a_wrong_password_is_told(self, mariadb_url: str) -> None:
        with pytest.raises(Misuse, match="cannot connect to the database"):
            await MariadbStore(mariadb_url.replace("root@", "nobody:here@")).open()


class TestViews(OnMariadb):
    async def test_views_for_people(self, session: Session, store: Store, people: Connection) -> None:
        entries = [entry(5, "orders"), entry(PART, "5/0", "partition", parent=5), entry(SUB, "orders", "subscription")]
        await store.control.apply(inserts=entries)
        await session.commit(
            messages=columns(1, 2, 3, at=1_700_000_000_123), pages=[page(0, frontier=3, outstanding=1)]
        )  # fmt: skip
        assert await people.rows("SELECT * FROM rowlock_subscriptions") == (("orders", "orders", PART, 3, 3, 1, 2),)
        assert await people.rows("SELECT * FROM rowlock_queues WHERE name = 'orders'") == (("orders", 1, 2, 1),)
        first, *_ = await people.rows("SELECT * FROM rowlock_messages ORDER BY seq")
        published_at = datetime(2023, 11, 14, 22, 13, 20, 123_000)  # noqa: DTZ001 - a DATETIME has no zone; it is UTC
        assert first == ("orders", PART, 1, f"{1:032x}", b"0123456789", published_at)


class TestCatalog(OnMariadb):
    @pytest.mark.parametrize("reached", [True, False], ids=["reached the server", "did not"])
    async def test_a_change_whose_answer_was_lost_is_made_once(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, reached: bool
    ) -> None:
        await store.control.apply(inserts=[entry(1, "a")])
        control: Any = store.control
        commit = Connection.commit

        async def lose_once(connection: Connection, *statements: str) -> Any:
            monkeypatch.setattr(Connection, "commit", commit)
            if reached:
                await commit(connection, *statements)
            connection.drop()
            raise Lost("the answer was lost", committing=True)

        monkeypatch.setattr(Connection, "commit", lose_once)
        assert await control.apply(inserts=[entry(2, "b")], removes=[entry(1, "a")])
        assert await store.control.get([1, 2]) == [entry(2, "b")]

    async def test_patience_ends(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rowlock.store.mariadb.control.PATIENCE_SECONDS", 0.05)

        async def nobody(*_: Any) -> Connection:
            raise Lost("nobody answers")

        monkeypatch.setattr("rowlock.store.mariadb.control.connect", nobody)
        with pytest.raises(Lost):
            await store.control.get([1])

    async def test_a_closed_store_is_told(self, store: Store) -> None:
        control = store.control
        await store.close()
        with pytest.raises(Misuse):
            await control.get([1])
        with pytest.raises(Misuse):
            _ = store.control
