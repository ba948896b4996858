"""Creates the schema, and brings an older one to the present.

MariaDB commits every change of the schema by itself. So each step can be run again, each lane records the steps that it
has, and a process that is killed in the middle, or two that begin at once, do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock.errors import SchemaTooNew
from rowlock.store.statements import load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowlock.store.mariadb.connection import Connection

PACKAGE = "rowlock.store.mariadb"
VERSION = 1
"""The number of the last step in schema.sql."""
CONTROL = -1
"""The control tables' number among the lanes in `rowlock_lanes`."""


def prefix(lane: int) -> str:
    return f"rowlock_lane{lane}_"


async def migrate(connection: Connection, lanes: int | None) -> int:
    """Bring the schema to `VERSION` and to at least so many lanes; the number of lanes that it has."""
    sql = load(PACKAGE, "schema.sql")
    done = await _versions(connection, sql)
    newest = max(done.values(), default=0)
    if newest > VERSION:
        raise SchemaTooNew(
            f"the database's schema has version {newest}, and this Rowlock knows versions up to {VERSION}: "
            "use a newer Rowlock"
        )
    wanted = max(lanes or 1, max(done, default=CONTROL) + 1)
    missing = [lane for lane in (CONTROL, *range(wanted)) if done.get(lane, 0) < VERSION]
    for lane in missing:
        await _upgrade(connection, lane, done.get(lane, 0))
    if missing:
        await _make_views(connection)
    await connection.run(sql["forget_applied"])
    return wanted


async def _versions(connection: Connection, sql: dict[str, str]) -> dict[int, int]:
    """The version of each lane, and of the control tables."""
    tables = {name for (name,) in await connection.rows(sql["tables"])}
    if "rowlock_lanes" not in tables:
        return {}
    return dict(await connection.rows(sql["versions"]))


async def _upgrade(connection: Connection, lane: int, version: int) -> None:
    sql = load(PACKAGE, "schema.sql", lane=prefix(lane))
    kind = "control" if lane == CONTROL else "lane"
    for step in range(version + 1, VERSION + 1):
        for statement in sql[f"{kind}_{step}"].split(";\n"):
            await connection.run(statement)
    await connection.run(sql["lane_done"] % {"lane": lane, "version": VERSION})


async def _make_views(connection: Connection) -> None:
    """Over all lanes that there are. Another process may add one at the same time: the later of the two sees both."""
    sql = load(PACKAGE, "schema.sql")
    seen: dict[int, int] = {}
    while seen != (done := await _versions(connection, sql)):
        seen = done
        for statement in _views(sorted(lane for lane in done if lane != CONTROL)):
            await connection.run(statement)


def _views(lanes: Iterable[int]) -> list[str]:
    parts = [load(PACKAGE, "views.sql", lane=prefix(lane)) for lane in lanes]
    ledgers = " UNION ALL ".join(part["ledgers_of_lane"] for part in parts)
    messages = " UNION ALL ".join(part["messages_of_lane"] for part in parts)
    views = load(PACKAGE, "views.sql", ledgers=ledgers, messages=messages)
    return [statement for name, statement in views.items() if name.startswith("rowlock_")]
