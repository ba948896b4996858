"""Taking every row out of a server's database, but for what its schema says of itself."""

from __future__ import annotations

import asyncpg

from rowlock.store.mariadb.address import parse
from rowlock.store.mariadb.connection import connect
from rowlock.store.port import Durability

POSTGRES = """
do $$ declare one record; begin
    set local synchronous_commit = off;
    for one in select schemaname, tablename from pg_tables
               where schemaname like 'rowlock%' and tablename not in ('meta', 'secrets') loop
        execute format('delete from %I.%I', one.schemaname, one.tablename);
    end loop;
end $$
"""
MARIADB = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = database() AND table_type = 'BASE TABLE' AND table_name NOT IN ('rowlock_meta', 'rowlock_lanes')
"""


async def empty(url: str) -> None:
    if url.startswith("postgres"):
        connection = await asyncpg.connect(url)
        await connection.execute(POSTGRES)
        await connection.close()
    else:
        session = await connect(parse(url), Durability.RELAXED)
        tables = [name for (name,) in await session.rows(MARIADB)]
        await session.transact(*(f"DELETE FROM {name}" for name in tables))
        session.drop()
