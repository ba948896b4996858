"""A database that refuses some data: every message with poison in it, by a constraint or trigger that the test adds."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from rowlock.store.mariadb.address import parse
from rowlock.store.mariadb.connection import connect
from rowlock.store.port import Durability

POISON = b"poison"

POSTGRES = (
    "alter table rowlock_lane_0.messages add constraint no_poison check (position('poison'::bytea in body) = 0)",
    "alter table rowlock_lane_0.messages drop constraint no_poison",
)
MARIADB = (
    "ALTER TABLE rowlock_lane0_messages ADD CONSTRAINT no_poison CHECK (LOCATE('poison', body) = 0)",
    "ALTER TABLE rowlock_lane0_messages DROP CONSTRAINT no_poison",
)
SQLITE = (
    """
    create trigger no_poison before insert on lane0_messages when instr(new.body, x'706f69736f6e') begin
        select raise(abort, 'no poison');
    end
    """,
    "drop trigger no_poison",
)


async def run(url: str, sql: str) -> None:
    """Run a statement on a database."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute(sql)
        connection.close()
    elif url.startswith("postgres"):
        server = await asyncpg.connect(url)
        await server.execute(sql)
        await server.close()
    else:
        session = await connect(parse(url), Durability.RELAXED)
        await session.run(sql)
        session.drop()


@asynccontextmanager
async def refusing(url: str) -> AsyncIterator[None]:
    """The database refuses poison; its schema must be there."""
    add, drop = SQLITE if url.startswith("sqlite") else POSTGRES if url.startswith("postgres") else MARIADB
    await run(url, add)
    try:
        yield
    finally:
        await run(url, drop)
