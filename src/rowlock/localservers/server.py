"""What a local PostgreSQL and a local MariaDB have in common: a folder, a process, databases."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from rowlock.errors import RowlockError
from rowlock.localservers import processes

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping

START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOG_TAIL_LINES = 15
SOCKET_PATH_BYTES = 100
"""Operating systems allow 103 to 107."""


class ServerMissing(RowlockError):
    """The database server's programs are not installed."""


class ServerFailed(RowlockError):
    """The database server, or its client program, ended with an error."""


class LocalServer(ABC):
    """A database server on a unix socket in a folder of its own, with fsync as in production.

    `start` makes the data on first use and returns when the server answers. `kill` is a crash (SIGKILL of all its
    processes at once); `start` recovers from it. `stop` ends in good order and keeps the data; `close` ends quickly
    and removes the folder, unless the caller named one. Other users of the machine cannot enter the folder.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    quick_signal: ClassVar[signal.Signals]
    first_database: ClassVar[str] = "rowlock"

    def __init__(self, directory: Path | None = None, settings: Mapping[str, object] | None = None):
        self.settings = dict(settings or {})
        self._owned = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"rowlock-{self.name}-"))
        self._user = processes.server_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._prepare_directory()

    @property
    def url(self) -> str:
        """Of the database that every server has from its beginning."""
        return self.url_of(self.first_database)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def pid(self) -> int | None:
        """None while the server does not run."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process and running else None

    def start(self) -> None:
        if self.pid is not None:
            return
        fresh = not self.data.exists()
        if fresh:
            self._initialise()
        self._process = processes.spawn(self._command(), self._user, self.log, self.quick_signal)
        self._await_ready(self._process)
        if fresh:
            self._furnish()

    def kill(self) -> None:
        if self._process is not None:
            processes.kill_family(self._process)
            self._process = None

    def pause(self) -> None:
        if self._process is not None:
            processes.pause_family(self._process)

    def resume(self) -> None:
        if self._process is not None:
            processes.resume_family(self._process)

    def stop(self) -> None:
        self._end(self.stop_signal)

    def close(self) -> None:
        self._end(self.quick_signal)
        if self._owned:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create_database(self) -> str:
        """A fresh, empty database; returns its URL."""
        database = f"rowlock_{secrets.token_hex(4)}"
        self.sql(f"create database {database}", database="")
        return self.url_of(database)

    def drop_database(self, url: str) -> None:
        """Also while connections to it are open."""
        self.sql(self._drop_statement(self._database_of(url)), database="")

    def sql(self, statement: str, database: str | None = None) -> str:
        """Run SQL by the server's own client program, as its superuser; rows come back as lines of tab-separated text.

        No database named: the first one; an empty name: none of ours.
        """
        done = processes.run([*self._client(self.first_database if database is None else database), statement])
        if done.returncode != 0:
            raise ServerFailed(f"{self.name} refused {statement!r}: {done.stderr.strip()}")
        return done.stdout

    @abstractmethod
    def url_of(self, database: str) -> str:
        """The address of a database."""

    @abstractmethod
    def _database_of(self, url: str) -> str: ...

    @abstractmethod
    def _initialise(self) -> None:
        """Make `data`."""

    def _furnish(self) -> None:
        """Once, when the server answers for the first time."""
        self.sql(f"create database {self.first_database}", database="")

    @abstractmethod
    def _command(self) -> list[str]:
        """What starts the server in the foreground."""

    @abstractmethod
    def _client(self, database: str) -> list[str]:
        """What runs the SQL statement that is put behind it."""

    @abstractmethod
    def _drop_statement(self, database: str) -> str: ...

    @property
    @abstractmethod
    def socket(self) -> Path: ...

    @abstractmethod
    def _answers(self, process: subprocess.Popen[bytes]) -> bool: ...

    def _prepare_directory(self) -> None:
        if len(os.fsencode(self.socket)) > SOCKET_PATH_BYTES:
            raise ServerFailed(
                f"the socket path {str(self.socket)!r} is longer than {SOCKET_PATH_BYTES} bytes; "
                "set TMPDIR to a shorter folder."
            )
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._user:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)

    def _run(self, command: list[str]) -> None:
        done = processes.run(command, self._user)
        if done.returncode != 0:
            raise ServerFailed(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr or done.stdout}")

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers(process):
            if process.poll() is not None:
                raise ServerFailed(f"{self.name} ended with {process.returncode} at its start: {self._log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"{self.name} did not answer within {START_SECONDS} s: {self._log_tail()}")
            time.sleep(0.01)

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-LOG_TAIL_LINES:])

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self.resume()
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None
