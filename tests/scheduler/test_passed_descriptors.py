"""Descriptors that a peer passes on a socket of the scheduler (SCM_RIGHTS). The scheduler takes none; if the kernel
closed them for it, a socket with SO_LINGER would stop the scheduler for as long as that says."""

import signal
import time
from collections.abc import Iterator

import pytest
from bench.flooder import lingering_socket, pass_descriptor

from support.daemon import Daemon

LINGER_S = 8


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d"), "--reader-socket", "off") as made:
        yield made


def test_a_socket_that_lingers_and_is_passed_to_the_scheduler_stops_nobody(daemon: Daemon) -> None:
    with daemon.client().register() as bystander, daemon.client() as attacker:
        passed, other = lingering_socket(LINGER_S)
        # Stopped, so that the scheduler has the last copy. An attacker needs a few attempts for that.
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            pass_descriptor(attacker.socket, passed)
        except PermissionError:  # The scheduler has told the kernel that it takes none.
            other.close()
        passed.close()
        daemon.process.send_signal(signal.SIGCONT)
        began = time.monotonic()
        bystander.take_lock()
        assert time.monotonic() - began < LINGER_S / 2
        other.close()
