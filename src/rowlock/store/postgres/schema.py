"""Creating and migrating the schema: numbered steps under the lock of one row, safe when several open at once."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from rowlock.errors import SchemaTooNew
from rowlock.store import statements
from rowlock.store.faults import Contended
from rowlock.store.postgres.guard import call
from rowlock.store.postgres.lane import PACKAGE, names_of

if TYPE_CHECKING:
    from asyncpg import Connection

VERSION = 1
RACES = 20
LANE_FUNCTIONS = ("put", "attempt", "attempt_one", "lock", "fence", "sequence_at")


async def migrate(connection: Connection, wanted_lanes: int) -> int:
    """Bring the schema to this version and to at least so many lanes; returns how many it has."""
    await _bootstrap(connection)
    await _run(connection, "begin")
    try:
        version, lanes, has_functions = await _locked_state(connection)
        if version > VERSION:
            raise SchemaTooNew(
                f"the database's schema has version {version}, this Rowlock knows {VERSION}: update Rowlock"
            )
        for step in steps(version, lanes, max(lanes, wanted_lanes), has_functions=has_functions):
            await _run(connection, step)
        await _run(connection, "commit")
    except BaseException:
        await connection.close()
        raise
    return max(lanes, wanted_lanes)


def steps(version: int, lanes: int, wanted_lanes: int, *, has_functions: bool) -> list[str]:
    """All that is to be executed, in order. Functions and views are code, not data: made anew after any change."""
    if version == VERSION and lanes == wanted_lanes and has_functions:
        return []
    found = [_schema(0)[f"control_{number}"] for number in range(version + 1, VERSION + 1)]
    for lane in range(wanted_lanes):
        since = version if lane < lanes else 0
        found += [_schema(lane)[f"lane_{number}"] for number in range(since + 1, VERSION + 1)]
        functions = statements.load(PACKAGE, "functions.sql", **names_of(lane))
        found += [functions[name] for name in LANE_FUNCTIONS]
    found.append(statements.load(PACKAGE, "control.sql", **names_of(0))["apply_function"])
    found.append(views(wanted_lanes))
    found.append(f"update rowlock.meta set number = {VERSION} where name = 'schema_version'")
    found.append(f"update rowlock.meta set number = {wanted_lanes} where name = 'lanes'")
    return found


def views(lanes: int) -> str:
    """The views for people, over all lanes, in place of what was there."""
    by_lane = [statements.load(PACKAGE, "views.sql", **names_of(lane)) for lane in range(lanes)]
    unions = {name: "\nunion all\n".join(one[f"lane_{name}"] for one in by_lane) for name in ("ledgers", "messages")}
    made = statements.load(PACKAGE, "views.sql", **unions)["views"]
    return f"drop view if exists rowlock_queues, rowlock_subscriptions, rowlock_messages;\n{made}"


def _schema(lane: int) -> dict[str, str]:
    return statements.load(PACKAGE, "schema.sql", **names_of(lane))


async def _bootstrap(connection: Connection) -> None:
    """The one table that everything else is done under the lock of.

    `create ... if not exists` is no protection from another session that creates the same at this moment: one of them
    gets a unique violation, and only has to look again.
    """
    for _ in range(RACES):
        if await call(connection, connection.fetchval("select to_regclass('rowlock.meta') is not null")):
            return
        try:
            await _run(connection, _schema(0)["bootstrap"])
        except Contended:
            await asyncio.sleep(random.uniform(0.01, 0.1))
    raise Contended(f"the schema could not be created: lost the race against other processes {RACES} times")


async def _locked_state(connection: Connection) -> tuple[int, int, bool]:
    """The schema's version, its lanes, and whether the last lane has this release's functions."""
    locked = "select number from rowlock.meta where name = 'schema_version' for update"
    version: int = await call(connection, connection.fetchval(locked))
    lanes: int = await call(connection, connection.fetchval("select number from rowlock.meta where name = 'lanes'"))
    names = names_of(max(lanes, 1) - 1)
    last = f"{names['lane']}.{LANE_FUNCTIONS[-1]}_{names['code']}"
    has_functions: bool = await call(connection, connection.fetchval("select to_regproc($1) is not null", last))
    return version, lanes, has_functions


async def _run(connection: Connection, sql: str) -> None:
    await call(connection, connection.execute(sql))
