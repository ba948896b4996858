"""The plain side on SQLite: statements called inline, WAL, synchronous=FULL."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Sequence

QUEUE = 1
HOLD_MS = 30_000
BUSY_SECONDS = 30.0

CREATE = """
drop table if exists q;
drop table if exists plain;
create table q (id integer primary key autoincrement, queue int, visible_at int, receives int default 0, key text,
    attrs blob, body blob);
create index q_visible on q (queue, visible_at, id);
create table plain (part integer not null, seq integer not null, accepted_at integer not null,
    published_at integer not null, size integer not null, id blob not null, body blob not null,
    primary key (part, seq)) without rowid;
"""
TAKE = """update q set visible_at = ?, receives = receives + 1 where id in (
    select id from q where queue = ? and visible_at <= ? order by visible_at, id limit ?) returning id, body"""


class PlainSqlite:
    """See `port.Plain`. One writer at a time, as the database has it: there is no SKIP LOCKED."""

    def __init__(self, path: str):
        self._database = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = full")
        self._seq = 0

    async def create(self) -> None:
        self._database.executescript(CREATE)

    async def insert(self, bodies: Sequence[bytes]) -> None:
        now, start = _now(), self._seq + 1
        self._seq += len(bodies)
        rows = [(1, seq, now, now, len(body), os.urandom(16), body) for seq, body in enumerate(bodies, start)]
        await self._many("insert into plain values (?, ?, ?, ?, ?, ?, ?)", rows)

    async def put(self, bodies: Sequence[bytes]) -> None:
        now = _now()
        rows = [(QUEUE, now, body) for body in bodies]
        await self._many("insert into q (queue, visible_at, body) values (?, ?, ?)", rows)

    async def take(self, most: int) -> list[int]:
        now = _now()
        taken = self._database.execute(TAKE, (now + HOLD_MS, QUEUE, now, most)).fetchall()
        await asyncio.sleep(0)
        return [row[0] for row in taken]

    async def delete(self, ids: Sequence[int]) -> None:
        self._database.execute("delete from q where id in (select value from json_each(?))", (json.dumps(ids),))
        await asyncio.sleep(0)

    async def extend(self, ids: Sequence[int]) -> None:
        self._database.execute(
            "update q set visible_at = ? where id in (select value from json_each(?))",
            (_now() + HOLD_MS, json.dumps(ids)),
        )
        await asyncio.sleep(0)

    async def tidy(self) -> None:
        self._database.execute("analyze")

    async def close(self) -> None:
        self._database.close()

    async def _many(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        self._database.execute("begin immediate")
        self._database.executemany(statement, rows)
        self._database.execute("commit")
        await asyncio.sleep(0)


def _now() -> int:
    return int(time.time() * 1000)
