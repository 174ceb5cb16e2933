"""Descriptors that a peer passes on a socket of the scheduler (SCM_RIGHTS). The scheduler takes none; if the kernel
closed them for it, a socket with SO_LINGER would stop the scheduler for as long as that says.

Kernels before 6.16 pass them. So does a later one if the scheduler does not tell it to refuse them."""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.flooder import lingering_socket, pass_descriptor

import support.daemon
from nvshare import admin
from nvshare.cli import operator_client
from nvshare.wire.codec import encode
from support.client import registration
from support.daemon import Daemon
from support.waiting import wait_until

LINGER_S = 60
OLD_KERNEL = """
from nvshare.scheduler import listening_socket, main, passed_descriptors
listening_socket.SO_PASSRIGHTS = 9999
"""
"""The scheduler on a kernel that does not know the option."""
UNSEEN = "passed_descriptors.socket.MSG_CTRUNC = 0\n"
"""As if each descriptor arrived between the look at a connection and the read."""
KERNELS = {"this kernel": "", "old kernel": OLD_KERNEL, "old kernel, unseen": OLD_KERNEL + UNSEEN}
BYTES = {
    "alone": b"",
    "behind a registration": encode(registration()),
    "behind a broken frame": bytes(600),
    "behind half a frame": encode(registration())[:9],
}
"""What is sent before the byte that comes with a descriptor."""


@pytest.fixture(scope="module", params=KERNELS)
def daemon(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("d")
    with pytest.MonkeyPatch.context() as patch:
        if KERNELS[request.param]:
            program = KERNELS[request.param] + "raise SystemExit(main.main())"
            patch.setattr(support.daemon, "PROGRAM", [sys.executable, "-c", program])
        daemon = Daemon(place, "--patience-seconds=1", "--reader-socket", str(place / "status" / "status.sock"))
    with daemon:
        yield daemon


def attack(daemon: Daemon, path: str, before: bytes, byte: bytes = b"\0") -> list[socket.socket]:
    """Pass a socket whose close waits. The scheduler is stopped, so that it has the last copy; an attacker needs a few
    attempts for that. Returns the attacker and the other end of what was passed."""
    attacker = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    attacker.settimeout(LINGER_S / 2)
    passed, other = lingering_socket(LINGER_S)
    daemon.process.send_signal(signal.SIGSTOP)
    attacker.connect(path)
    if before:
        attacker.sendall(before)
    try:
        pass_descriptor(attacker, passed, byte)
    except PermissionError:  # The scheduler has told the kernel that it takes none.
        other.close()
        attacker.sendall(byte)
    passed.close()
    daemon.process.send_signal(signal.SIGCONT)
    return [attacker, other]


def wait_until_heard(attacker: socket.socket, *, until_closed: bool) -> None:
    """The scheduler has read what was sent, and answers or closes; TimeoutError if it stands still."""
    with contextlib.suppress(ConnectionResetError):
        while attacker.recv(1 << 12) and until_closed:
            pass


def close(sockets: list[socket.socket]) -> None:
    for one in sockets:
        one.close()


@pytest.mark.parametrize("before", BYTES)
def test_a_socket_that_lingers_and_is_passed_to_the_scheduler_stops_nobody(daemon: Daemon, before: str) -> None:
    with daemon.client(timeout=LINGER_S / 2).register() as bystander:
        sockets = attack(daemon, daemon.socket, BYTES[before])
        wait_until_heard(sockets[0], until_closed=True)
        bystander.take_lock()
        close(sockets)
        daemon.assert_alive()


def test_one_that_is_passed_to_the_socket_for_reading_stops_nobody(daemon: Daemon) -> None:
    path = str(Path(daemon.socket).parents[1] / "status" / "status.sock")
    with daemon.client(timeout=LINGER_S / 2).register() as bystander:
        sockets = attack(daemon, path, b"", b"\n")
        wait_until_heard(sockets[0], until_closed=False)
        bystander.take_lock()
        close(sockets)
    daemon.assert_alive()
    assert operator_client.ask_for(admin.Status, path, admin.GetStatus()).version


def test_many_of_them_are_closed_one_after_the_other(daemon: Daemon) -> None:
    before = daemon.descriptors()
    attacks = [attack(daemon, daemon.socket, bytes(600)) for _ in range(20)]
    for sockets in attacks:
        wait_until_heard(sockets[0], until_closed=True)
    wait_until(lambda: daemon.descriptors() <= before, "the descriptors are closed", LINGER_S / 2)
    for sockets in attacks:
        close(sockets)
