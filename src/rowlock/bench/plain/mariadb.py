"""The plain side on MariaDB: bulk inserts, and SKIP LOCKED in a transaction of two statements."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import asyncmy

from rowlock.store.mariadb.address import parse

QUEUE = 1

CREATE = [
    "drop table if exists q",
    "drop table if exists plain",
    """create table q (id bigint auto_increment primary key, queue int, visible_at timestamp(6) default now(6),
        receives int default 0, `key` text, attrs blob, body blob, index (queue, visible_at, id))""",
    """create table plain (part bigint not null, seq bigint not null, accepted_at bigint not null,
        published_at bigint not null, size int not null, id binary(16) not null, body mediumblob not null,
        primary key (part, seq))""",
]
INSERT = "insert into plain (part, seq, accepted_at, published_at, size, id, body) values (?, ?, ?, ?, ?, ?, ?)"
PUT = "insert into q (queue, body) values (?, ?)"
FIND = """select id, body from q where queue = %s and visible_at <= now(6) order by visible_at, id limit %s
    for update skip locked"""
HOLD = "update q set visible_at = now(6) + interval 30 second, receives = receives + 1 where id in ({ids})"
EXTEND = "update q set visible_at = now(6) + interval 30 second where id in ({ids})"
DELETE = "delete from q where id in ({ids})"

_connect: Any = asyncmy.connect  # the driver's functions have no types


class PlainMariadb:
    """See `port.Plain`."""

    def __init__(self, driver: Any):
        self._driver = driver
        self._bulk: dict[str, Any] = {}
        self._seq = 0

    @classmethod
    async def connect(cls, url: str) -> PlainMariadb:
        address = parse(url)
        driver = await _connect(
            user=address.user, database=address.database, unix_socket=address.unix_socket, autocommit=True
        )
        return cls(driver)

    async def create(self) -> None:
        for statement in CREATE:
            await self._driver.query(statement.encode())

    async def insert(self, bodies: Sequence[bytes]) -> None:
        now, start = int(time.time() * 1000), self._seq + 1
        self._seq += len(bodies)
        rows = [(1, seq, now, now, len(body), os.urandom(16), body) for seq, body in enumerate(bodies, start)]
        await self._many(INSERT, rows)

    async def put(self, bodies: Sequence[bytes]) -> None:
        await self._many(PUT, [(QUEUE, body) for body in bodies])

    async def take(self, most: int) -> list[int]:
        await self._driver.query(b"begin")
        await self._driver.query((FIND % (QUEUE, most)).encode())
        ids = [row[0] for row in self._driver._result.rows or ()]
        if ids:
            await self._with_ids(HOLD, ids)
        await self._driver.query(b"commit")
        return ids

    async def delete(self, ids: Sequence[int]) -> None:
        await self._with_ids(DELETE, ids)

    async def extend(self, ids: Sequence[int]) -> None:
        await self._with_ids(EXTEND, ids)

    async def tidy(self) -> None:
        await self._driver.query(b"analyze table q")

    async def close(self) -> None:
        self._driver.close()

    async def _with_ids(self, statement: str, ids: Sequence[int]) -> None:
        if ids:
            await self._driver.query(statement.format(ids=",".join(map(str, ids))).encode())

    async def _many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        prepared = self._bulk.get(statement)
        if prepared is None:
            prepared = self._bulk[statement] = await self._driver.prepare(statement)
        await prepared.execute_bulk(rows)
