"""The plain side on PostgreSQL: prepared statements on asyncpg."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import asyncpg

QUEUE = 1

CREATE = """
drop table if exists q;
drop table if exists plain;
create table q (id bigserial primary key, queue int, visible_at timestamptz default now(), receives int default 0,
    key text, attrs bytea, body bytea) with (fillfactor = 70);
create index on q (queue, visible_at, id);
create table plain (part bigint not null, seq bigint not null, accepted_at bigint not null,
    published_at bigint not null, size integer not null, id bytea not null, body bytea not null,
    primary key (part, seq))
"""
STATEMENTS = {
    "put": "insert into q (queue, body) select $1, unnest($2::bytea[])",
    "take": """update q set visible_at = now() + interval '30 s', receives = receives + 1 where id in (
        select id from q where queue = $1 and visible_at <= now() order by visible_at, id limit $2
        for update skip locked) returning id, body""",
    "delete": "delete from q where id = any($1)",
    "extend": "update q set visible_at = now() + interval '30 s' where id = any($1)",
    "insert": """insert into plain (part, seq, accepted_at, published_at, size, id, body)
        select unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]),
        unnest($5::bigint[]), unnest($6::bytea[]), unnest($7::bytea[])""",
}


class PlainPostgres:
    """See `port.Plain`."""

    def __init__(self, connection: Any):
        self._connection = connection
        self._prepared: dict[str, Any] = {}
        self._seq = 0

    @classmethod
    async def connect(cls, url: str) -> PlainPostgres:
        return cls(await asyncpg.connect(url))

    async def create(self) -> None:
        await self._connection.execute(CREATE)

    async def insert(self, bodies: Sequence[bytes]) -> None:
        count = len(bodies)
        now = [int(time.time() * 1000)] * count
        ids = [os.urandom(16) for _ in bodies]
        seqs = range(self._seq + 1, self._seq + count + 1)
        await self._fetch("insert", [1] * count, seqs, now, now, [len(body) for body in bodies], ids, bodies)
        self._seq += count

    async def put(self, bodies: Sequence[bytes]) -> None:
        await self._fetch("put", QUEUE, bodies)

    async def take(self, most: int) -> list[int]:
        return [row[0] for row in await self._fetch("take", QUEUE, most)]

    async def delete(self, ids: Sequence[int]) -> None:
        await self._fetch("delete", ids)

    async def extend(self, ids: Sequence[int]) -> None:
        await self._fetch("extend", ids)

    async def tidy(self) -> None:
        await self._connection.execute("vacuum analyze q")

    async def close(self) -> None:
        await self._connection.close()

    async def _fetch(self, name: str, *arguments: Any) -> list[Any]:
        prepared = self._prepared.get(name)
        if prepared is None:
            prepared = self._prepared[name] = await self._connection.prepare(STATEMENTS[name])
        rows: list[Any] = await prepared.fetch(*arguments)
        return rows
