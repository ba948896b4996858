"""Creates the schema, and brings an older one to the present."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowlock import errors
from rowlock.store.statements import load

if TYPE_CHECKING:
    from rowlock.store.sqlite.connection import Connection

PACKAGE = "rowlock.store.sqlite"
VERSION = 1
"""The number of the last step in schema.sql."""


async def migrate(connection: Connection, lanes: int | None) -> int:
    """Bring the schema to `VERSION` and to at least so many lanes; the number of lanes that it has."""
    version, existing = await connection.patiently(lambda: _state(connection))
    if version == VERSION and existing >= (lanes or 1):
        return existing
    async with connection.transaction():
        version, existing = _state(connection)
        wanted = max(existing, lanes or 1)
        _upgrade(connection, version, existing, wanted)
    return wanted


def lane_prefix(number: int) -> str:
    return f"lane{number}"


def _state(connection: Connection) -> tuple[int, int]:
    """The version and the lanes of the schema; 0 and 0 where there is none."""
    if not connection.rows("select 1 from sqlite_master where name = 'rowlock_meta'"):
        return 0, 0
    rows = connection.rows("select name, value from rowlock_meta where name in ('schema_version', 'lanes')")
    meta: dict[str, int] = dict(rows)
    if meta["schema_version"] > VERSION:
        raise errors.SchemaTooNew(
            f"{connection.path} has schema version {meta['schema_version']}, and this Rowlock knows versions up to "
            f"{VERSION}: use a newer Rowlock"
        )
    return meta["schema_version"], meta["lanes"]


def _upgrade(connection: Connection, version: int, existing: int, wanted: int) -> None:
    control = load(PACKAGE, "schema.sql")
    for step in range(version + 1, VERSION + 1):
        _script(connection, control[f"control_{step}"])
    for number in range(wanted):
        lane = load(PACKAGE, "schema.sql", lane=lane_prefix(number))
        done = version if number < existing else 0
        for step in range(done + 1, VERSION + 1):
            _script(connection, lane[f"lane_{step}"])
    _make_views(connection, wanted)
    connection.many(
        "insert into rowlock_meta (name, value) values (?, ?) on conflict (name) do update set value = excluded.value",
        [("schema_version", VERSION), ("lanes", wanted)],
    )


def _make_views(connection: Connection, lanes: int) -> None:
    selects = [load(PACKAGE, "views.sql", lane=lane_prefix(number)) for number in range(lanes)]
    ledgers = " union all ".join(each["ledgers_of_lane"] for each in selects)
    messages = " union all ".join(each["messages_of_lane"] for each in selects)
    for name, sql in load(PACKAGE, "views.sql", ledgers=ledgers, messages=messages).items():
        if name.startswith("rowlock_"):
            connection.run(f"drop view if exists {name}")
            connection.run(sql)


def _script(connection: Connection, script: str) -> None:
    """Statement by statement: the driver's own executescript would commit first."""
    for statement in script.split(";\n"):
        connection.run(statement)
