"""PostgreSQL: the conformance suite, and the schema as people see it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import asyncpg
import pytest

from rowlock.store.port import Durability, Entry
from rowlock.store.postgres import PostgresStore

from .conformance import StoreConformance
from .session import OTHER_PART, PART, SUB, Session, columns, message_id, page, partition

if TYPE_CHECKING:
    from rowlock.localservers import LocalServer

    from .session import NewStore

DESCRIPTION = """
select table_schema, table_name, column_name, data_type, is_nullable, column_default, ordinal_position::int
from information_schema.columns where table_schema not in ('pg_catalog', 'information_schema')
union all
select schemaname, tablename, indexname, indexdef, null, null, null from pg_indexes where schemaname like 'rowlock%'
union all
select nspname, proname, pg_get_functiondef(p.oid), null, null, null, null
from pg_proc p join pg_namespace n on n.oid = pronamespace where nspname like 'rowlock%'
union all
select nspname, relname, array_to_string(reloptions, ','), null, null, null, null
from pg_class c join pg_namespace n on n.oid = relnamespace where nspname like 'rowlock%'
union all
select viewname, definition, null, null, null, null, null from pg_views where viewname like 'rowlock%'
order by 1, 2, 3, 4
"""


class TestPostgres(StoreConformance):
    @pytest.fixture
    def new_store(self, postgres_url: str) -> NewStore:
        return lambda: PostgresStore(postgres_url)


async def test_people_see_all_lanes_through_the_views(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    await store.open(lanes=2)
    await store.control.apply(
        [
            Entry("topic", 1, "orders", 1, "{}", 1, ""),
            Entry("partition", PART, "1/0", 1, "{}", 1, "", 1),
            Entry("partition", OTHER_PART, "1/1", 1, "{}", 1, "", 1),
            Entry("subscription", SUB, "orders", 1, "{}", 1, ""),
        ]
    )
    for number, part in enumerate([PART, OTHER_PART]):
        session = Session(await store.lane(number, Durability.LOCAL))
        await session.commit(
            partitions=[partition(part)],
            cursors=[(part, SUB, 1)],
            messages=columns(1, 2, part=part),
            pages=[page(0, part=part, frontier=2, outstanding=1)],
        )
        await session.lane.close()
    await store.close()
    connection = await asyncpg.connect(postgres_url)
    queues = await connection.fetch("select * from rowlock_queues")
    subscriptions = await connection.fetch("select * from rowlock_subscriptions order by partition")
    messages = await connection.fetch("select * from rowlock_messages order by partition, seq")
    await connection.close()
    assert [tuple(row) for row in queues] == [("orders", 2, 4, 2)]
    assert [tuple(row) for row in subscriptions] == [
        ("orders", "orders", part, 2, 2, 1, 2) for part in (PART, OTHER_PART)
    ]
    assert [tuple(row)[:3] for row in messages] == [
        ("orders", part, seq) for part in (PART, OTHER_PART) for seq in (1, 2)
    ]
    assert messages[0]["id"] == message_id(1).hex()
    assert messages[0]["published_at"] == datetime.fromtimestamp(1, UTC)


async def test_a_schema_that_grew_by_a_lane_is_like_a_fresh_one(postgres_server: LocalServer) -> None:
    described = []
    for openings in ([1, 3], [3]):
        url = postgres_server.create_database()
        for lanes in openings:
            store = PostgresStore(url)
            await store.open(lanes)
            await store.close()
        connection = await asyncpg.connect(url)
        described.append(await connection.fetch(DESCRIPTION))
        await connection.close()
        postgres_server.drop_database(url)
    assert len(described[0]) > 100
    assert described[0] == described[1]
