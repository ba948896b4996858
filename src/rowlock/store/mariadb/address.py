"""Where a server is and who asks, as a URL says it: mysql://user:password@host:3306/database?unix_socket=/path."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from rowlock.errors import InvalidArgument

SCHEMES = ("mysql", "mariadb")
PORT = 3306


class Address(Struct, frozen=True):
    user: str
    password: str
    host: str
    port: int
    database: str
    unix_socket: str | None

    def __str__(self) -> str:
        """Without the password: this stands in messages."""
        place = self.unix_socket or f"{self.host}:{self.port}"
        return f"the database {self.database!r} at {place}"


def parse(url: str) -> Address:
    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError as error:
        raise InvalidArgument(f"the database's address is not a URL: {error}") from error
    if parts.scheme not in SCHEMES:
        raise InvalidArgument(
            f"the database's address begins with {parts.scheme!r}: write mysql://... or mariadb://..."
        )
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise InvalidArgument("the database's address names no database: write mysql://user:password@host/database")
    return Address(
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        host=parts.hostname or "localhost",
        port=port,
        database=database,
        unix_socket=_unix_socket(parts.query),
    )


def _unix_socket(query: str) -> str | None:
    options = parse_qs(query)
    path = options.pop("unix_socket", [None])[-1]
    if options:
        raise InvalidArgument(f"the database's address has an option {min(options)!r}: it takes unix_socket only")
    return path
