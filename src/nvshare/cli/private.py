"""A scheduler of one's own, for machines that have none: started with the first program, ended after the last.

Everything lives in one directory that only this user can enter. Three locks keep it simple:

  starting    held while somebody looks for the scheduler and starts it, so that ten programs started at once
              get one scheduler;
  users       shared by every program that `nvshare run` started, through a descriptor that it inherits. The
              scheduler ends only when nobody holds it: a program that loads for a minute before it touches
              the GPU still finds its scheduler there;
  the lease   the scheduler's own, see scheduler/listener.py.

The scheduler says that it is ready as it would to systemd, so nothing here polls. A shell waits for its end, to sweep
(leftovers.py)."""

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from nvshare.cli.failure import EXIT_OURS, FrontError
from nvshare.cli.leftovers import open_high
from nvshare.cli.places import Place, answers, runtime_directory

__all__ = ["Place", "answers", "join", "leave", "runtime_directory"]

PATIENCE_S = 30.0
UNUSED_S = 2
_SHELL = "/bin/sh"
_THEN_SWEEP = 'python=$0 runtime=$1; shift; "$@"; code=$?; "$python" -P -m nvshare.cli.leftovers "$runtime"; exit $code'


def join(place: Place, environment: Mapping[str, str], options: tuple[str, ...] = ()) -> int:
    """Become a user of the scheduler there, starting it if need be.

    What makes us a user is the descriptor returned: it is inherited by what we exec, and closing it is leaving."""
    Path(place.operator_socket).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _starting(place):
        descriptor, is_first = _hold(place)
        if not answers(place.socket):
            _start(place, environment, (*options, *(("--settle-seconds", "0") if is_first else ())))
        return descriptor


def leave(place: Place, descriptor: int) -> None:
    """Be a user no longer, and end the scheduler, which nobody else knows of; back when it has gone."""
    os.close(descriptor)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(place.operator_socket)
            # Of a socket that connected, the kernel tells who listens at the other end.
            pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            pidfd = os.pidfd_open(pid)
        except OSError:
            return  # It has ended already.
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        select.select([pidfd], [], [], PATIENCE_S)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


def _hold(place: Place) -> tuple[int, bool]:
    """Hold the users' lock for as long as this program lives; and whether nobody else does."""
    descriptor = open_high(place.users)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # Waits for a scheduler that is just ending.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_first = True
    except OSError:
        is_first = False
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.set_inheritable(descriptor, True)
    return descriptor, is_first


@contextlib.contextmanager
def _starting(place: Place) -> Iterator[None]:
    descriptor = os.open(f"{place.directory}/starting.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _start(place: Place, environment: Mapping[str, str], options: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory(prefix="n", dir=place.directory) as folder, _inbox(f"{folder}/n") as inbox:
        command = [
            *_sweeping_after(),
            *(sys.executable, "-P", "-m", "nvshare.scheduler.main"),
            *("--socket", place.socket, "--operator-socket", place.operator_socket),
            *("--exit-when-unused", str(UNUSED_S), "--kubernetes", "off"),
            *options,
        ]
        with Path(place.log).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and modules
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_daemon_environment(environment, f"{folder}/n"),
                start_new_session=True,
            )
        _await_ready(process, inbox, place)


def _sweeping_after() -> tuple[str, ...]:
    """What to put before a command; nothing in an image without a shell, where the next start sweeps."""
    there = os.access(_SHELL, os.X_OK)
    return (_SHELL, "-c", _THEN_SWEEP, sys.executable, str(runtime_directory())) if there else ()


@contextlib.contextmanager
def _inbox(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        try:
            inbox.bind(path)
        except OSError as error:
            raise FrontError(f"cannot make a socket at {path}: {error.strerror or error}", EXIT_OURS) from None
        yield inbox


def _daemon_environment(environment: Mapping[str, str], inbox: str) -> dict[str, str]:
    """The program's environment without what is meant for the program, so that both see the same GPUs."""
    made = {name: value for name, value in environment.items() if name not in ("LD_PRELOAD", "NVSHARE_CONFIG")}
    made["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    made["NOTIFY_SOCKET"] = inbox
    made.setdefault("NVSHARE_LOG_LEVEL", "warning")  # Its log is a file that nobody rotates; `nvsharectl events` tells.
    return made


def _await_ready(process: subprocess.Popen[bytes], inbox: socket.socket, place: Place) -> None:
    deadline = time.monotonic() + PATIENCE_S
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
                    raise FrontError(f"the private scheduler ended at once: {_last_line(place.log)}", EXIT_OURS)
        os.killpg(process.pid, signal.SIGTERM)
        raise FrontError(f"the private scheduler did not start in {PATIENCE_S:g} s; see {place.log}", EXIT_OURS)
    finally:
        os.close(pidfd)


def _last_line(path: str) -> str:
    lines = Path(path).read_text(errors="replace").strip().splitlines()
    return "".join(char if char.isprintable() else "?" for char in lines[-1]) if lines else f"see {path}"
