"""One server per SQLite file: a lock file beside it, and a lock that ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowlock.errors import InUse
from rowlock.store.sqlite.store import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".server"


@contextmanager
def only_server(url: str) -> Iterator[None]:
    """Be the only server on a SQLite file, or raise InUse. Other databases take any number of them.

    The file stays when the lock ends: if it were removed, two servers could hold a lock on two files of its name.
    """
    if not url.startswith("sqlite:"):
        yield
        return
    path = path_of(url)
    with path.with_name(path.name + SUFFIX).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InUse(
                f"Another server (process {file.read().strip() or 'unknown'}) serves {path} already: a SQLite file "
                "has one server at a time. Stop it, or use PostgreSQL or MariaDB, which take any number."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
