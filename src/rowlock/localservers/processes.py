"""Starting and killing a server's processes: unprivileged where the caller is root, and never outliving it."""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Sequence
    from pathlib import Path

UNPRIVILEGED_USERS = ("nobody", "postgres", "mysql", "daemon")
DEATH_SECONDS = 30.0
PR_SET_PDEATHSIG = 1

# Linux sends the parent-death signal when the *thread* that started the process ends, so that a server started by
# somebody's short-lived worker thread would die with it: all are started by one thread that lives as long as we do.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rowlock-localservers")


def server_user() -> pwd.struct_passwd | None:
    """Whom servers run as: None is ourselves; database servers refuse to run as root."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    for name in UNPRIVILEGED_USERS:
        if name in known:
            return known[name]
    raise LookupError(f"root may not run a database server, and none of the users {UNPRIVILEGED_USERS} exists.")


def _identity(user: pwd.struct_passwd | None) -> tuple[int | None, int | None, list[int] | None]:
    """What subprocess takes as user, group and extra groups; None leaves ours."""
    return (user.pw_uid, user.pw_gid, []) if user else (None, None, None)


def environment() -> dict[str, str]:
    """Ours, without the variables by which PostgreSQL's and MariaDB's programs are led to other servers."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PG", "MYSQL", "MARIADB"))}


def run(command: Sequence[str], user: pwd.struct_passwd | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output captured."""
    uid, gid, groups = _identity(user)
    return subprocess.run(
        command,
        user=uid,
        group=gid,
        extra_groups=groups,
        env=environment(),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def spawn(
    command: Sequence[str], user: pwd.struct_passwd | None, log: Path, end_with_parent: signal.Signals
) -> subprocess.Popen[bytes]:
    """Start a server in the background; it gets `end_with_parent` when this process ends in whatever way (on Linux)."""
    uid, gid, groups = _identity(user)
    with log.open("ab") as output:
        return _starter.submit(
            subprocess.Popen,
            command,
            user=uid,
            group=gid,
            extra_groups=groups,
            env=environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_parent_death_signal(end_with_parent),
        ).result()


def _parent_death_signal(number: signal.Signals) -> Callable[[], object] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, int(number))


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL a server and all of its children at one moment, and wait until none is left."""
    family = _stopped_family(process.pid) if process.poll() is None else []
    for member in family:
        _quietly(member.kill)
    process.wait(DEATH_SECONDS)
    deadline = time.monotonic() + DEATH_SECONDS
    while any(_alive(member) for member in family):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of the server {process.pid} live on {DEATH_SECONDS} s after SIGKILL.")
        time.sleep(0.005)


def pause_family(process: subprocess.Popen[bytes]) -> None:
    """SIGSTOP a server and all of its children: a machine that answers nobody, and has closed nothing."""
    for member in _stopped_family(process.pid):
        _quietly(member.suspend)


def resume_family(process: subprocess.Popen[bytes]) -> None:
    server = psutil.Process(process.pid)
    for member in (*server.children(recursive=True), server):
        _quietly(member.resume)


def _stopped_family(pid: int) -> list[psutil.Process]:
    """The server is stopped first: it would start new children, or begin to recover from the loss of the first."""
    server = psutil.Process(pid)
    _quietly(server.suspend)
    return [server, *server.children(recursive=True)]


def _alive(member: psutil.Process) -> bool:
    """A zombie does not count: where the init process reaps nobody, an orphan stays one for ever."""
    try:
        return member.is_running() and member.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _quietly(action: Callable[[], None]) -> None:
    try:
        action()
    except psutil.NoSuchProcess:
        return
