"""A local MariaDB from the programs that the system has installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rowlock.localservers.server import LocalServer, ServerMissing

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin")
"""Where servers are installed, and which a user's PATH may lack."""

GREETING_SECONDS = 1.0


class LocalMariadb(LocalServer):
    name = "mariadb"
    stop_signal = signal.SIGTERM
    quick_signal = signal.SIGKILL

    @property
    def socket(self) -> Path:
        return self.directory / "socket"

    def url_of(self, database: str) -> str:
        return f"mysql://root@localhost/{database}?unix_socket={self.socket}"

    def _database_of(self, url: str) -> str:
        return urlsplit(url).path.removeprefix("/")

    def _initialise(self) -> None:
        options = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        self._run([_program("mariadb-install-db"), *options, f"--datadir={self.data}"])

    def _command(self) -> list[str]:
        settings = [f"--{name}={value}" for name, value in self.settings.items()]
        place = [
            f"--datadir={self.data}",
            f"--socket={self.socket}",
            f"--pid-file={self.directory / 'pid'}",
            # A server that starts deletes the temporary tables of all others in the same folder.
            f"--tmpdir={self.data}",
        ]
        return [_program("mariadbd"), "--no-defaults", "--skip-networking", *place, *settings]

    def _client(self, database: str) -> list[str]:
        place = [f"--socket={self.socket}", "--user=root", f"--database={database}"]
        # Another delimiter than ";", so that the client does not cut a compound statement in pieces.
        return [
            _program("mariadb"),
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--delimiter=//",
            *place,
            "--execute",
        ]

    def _drop_statement(self, database: str) -> str:
        """Open transactions would hold it up for ever: their connections are ended first.

        One that ends by itself in the meantime makes KILL fail, which is as good.
        """
        return f"""
            begin not atomic
                declare continue handler for 1094 begin end;
                for one in (select id from information_schema.processlist where db = '{database}') do
                    execute immediate concat('kill ', one.id);
                end for;
            end;
            drop database if exists {database};"""

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        """The socket is there early; the greeting comes when the server is ready."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(GREETING_SECONDS)
            try:
                connection.connect(os.fspath(self.socket))
                return connection.recv(1) != b""
            except OSError:
                return False


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(SYSTEM_FOLDERS))
    if found is None:
        raise ServerMissing(f"the program {name!r} is not installed; on Debian it is in the package mariadb-server.")
    return found
