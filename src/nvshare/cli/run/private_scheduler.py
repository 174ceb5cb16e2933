"""The private scheduler of one user, for machines without a scheduler: started with the first program, ended after the
last.

All its files are in one directory that only this user can enter. Three file locks:

  starting    held while a process looks for the scheduler and starts it: ten programs that start at once get one
              scheduler;
  users       held shared by every program that `nvshare run` started, through a descriptor that it inherits. The
              scheduler ends only when no process holds it: a program that loads for a minute before it uses the
              GPU still finds its scheduler;
  instance    the scheduler's own, see scheduler/instance_lock.py.

The scheduler reports through NOTIFY_SOCKET that it is ready, as to systemd, so nothing here polls. A shell waits for
its end and then removes unused directories (cleanup.py)."""

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from nvshare.cli.errors import EXIT_NVSHARE_FAILED, CommandError
from nvshare.cli.run.cleanup import open_high
from nvshare.cli.run.scheduler_paths import SchedulerPaths, is_answering, runtime_directory
from nvshare.printable import last_line
from nvshare.unix_socket import peer_credentials

__all__ = ["SchedulerPaths", "is_answering", "join", "leave", "runtime_directory"]

START_TIMEOUT_S = 30.0
UNUSED_S = 2
_SHELL = "/bin/sh"
_THEN_CLEAN_UP = (
    'python=$0 runtime=$1; shift; "$@"; code=$?; "$python" -P -m nvshare.cli.run.cleanup "$runtime"; exit $code'
)


def join(paths: SchedulerPaths, environment: Mapping[str, str], options: tuple[str, ...] = ()) -> int:
    """Become a user of the scheduler there; start it if it does not run.

    The returned descriptor makes this process a user: programs that it becomes inherit it, and closing it ends the use.
    """
    Path(paths.operator_socket).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _starting(paths):
        descriptor, is_first = _hold(paths)
        if not is_answering(paths.socket):
            _start(paths, environment, (*options, *(("--settle-seconds", "0") if is_first else ())))
        return descriptor


def leave(paths: SchedulerPaths, descriptor: int) -> None:
    """End the use and the scheduler, which has no other users; returns when it has ended."""
    os.close(descriptor)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(paths.operator_socket)
            # The credentials of a connected socket are those of the listening process.
            pidfd = os.pidfd_open(peer_credentials(connection).pid)
        except OSError:
            return  # It has ended already.
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        select.select([pidfd], [], [], START_TIMEOUT_S)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


def _hold(paths: SchedulerPaths) -> tuple[int, bool]:
    """Hold the users' lock as long as this program runs; also tells whether it is the only one."""
    descriptor = open_high(paths.users)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # Waits for a scheduler that is ending.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_first = True
    except OSError:
        is_first = False
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.set_inheritable(descriptor, True)
    return descriptor, is_first


@contextlib.contextmanager
def _starting(paths: SchedulerPaths) -> Iterator[None]:
    descriptor = os.open(f"{paths.directory}/starting.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _start(paths: SchedulerPaths, environment: Mapping[str, str], options: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="n", dir=paths.directory) as folder, _inbox(f"{folder}/n") as inbox:
        command = [
            *_with_cleanup(),
            *(sys.executable, "-P", "-m", "nvshare.scheduler.main"),
            *("--socket", paths.socket, "--operator-socket", paths.operator_socket),
            *("--exit-when-unused", str(UNUSED_S), "--kubernetes", "off", "--reader-socket", "off"),
            *options,
        ]
        with Path(paths.log).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_daemon_environment(environment, f"{folder}/n"),
                start_new_session=True,
            )
        _await_ready(process, inbox, paths)


def _with_cleanup() -> tuple[str, ...]:
    """The prefix of the command; empty in an image without a shell, where the next start removes directories."""
    there = os.access(_SHELL, os.X_OK)
    return (_SHELL, "-c", _THEN_CLEAN_UP, sys.executable, str(runtime_directory())) if there else ()


@contextlib.contextmanager
def _inbox(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        try:
            inbox.bind(path)
        except OSError as error:
            raise CommandError(
                f"cannot make a socket at {path}: {error.strerror or error}", EXIT_NVSHARE_FAILED
            ) from None
        yield inbox


def _daemon_environment(environment: Mapping[str, str], inbox: str) -> dict[str, str]:
    """The program's environment without LD_PRELOAD and without a file of settings, so that both see the same GPUs."""
    made = {name: value for name, value in environment.items() if name != "LD_PRELOAD"} | {"NVSHARE_CONFIG": ""}
    made["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    made["NOTIFY_SOCKET"] = inbox
    made.setdefault("NVSHARE_LOG_LEVEL", "warning")  # Its log file is not rotated; `nvsharectl events` shows the steps.
    return made


def _await_ready(process: subprocess.Popen[bytes], inbox: socket.socket, paths: SchedulerPaths) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    pidfd = os.pidfd_open(process.pid)
    poller = select.poll()
    poller.register(inbox, select.POLLIN)
    poller.register(pidfd, select.POLLIN)
    try:
        while (left := deadline - time.monotonic()) > 0:
            for descriptor, _ in poller.poll(left * 1000):
                if descriptor == inbox.fileno() and b"READY=1" in inbox.recv(4096):
                    return
                if descriptor == pidfd:
                    raise CommandError(
                        f"the private scheduler exited during its start: {_last_line(paths.log)}", EXIT_NVSHARE_FAILED
                    )
        os.killpg(process.pid, signal.SIGTERM)
        raise CommandError(
            f"the private scheduler did not start within {START_TIMEOUT_S:g} s; see {paths.log}", EXIT_NVSHARE_FAILED
        )
    finally:
        os.close(pidfd)


def _last_line(path: str) -> str:
    return last_line(Path(path).read_text(errors="replace")) or f"see {path}"
