"""A defect outside of the core, in what the event loop calls: it ends one connection, or what it is in starts again.

Each defect is put in at one place and fails once. The scheduler must go on, log it and count it."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.wire import messages as wire
from support.altered_scheduler import serve
from support.client import GIB, WireClient, entry, registration
from support.daemon import clean_environment
from support.waiting import wait_until

ONCE = (
    "import itertools, nvshare.scheduler.back_off as b; b.FIRST_S = 0.01\n"
    "def fail_once(owner, name, skip=0):\n"
    "    right, times = getattr(owner, name), itertools.count()\n"
    "    def altered(*a, **k):\n"
    "        assert next(times) != skip, 'put in'\n"
    "        return right(*a, **k)\n"
    "    setattr(owner, name, altered)\n"
)
CLIENT = "from nvshare.scheduler.clients.connection import ClientConnection as C\n"
HEARD = r"\[ERROR\]: A bug .*, please report it: (AssertionError\('put in'\)|RuntimeError\('unhandled error)"
"""The second is what uvloop makes of the first in `get_buffer`."""


class Scheduler:
    """One with a defect."""

    def __init__(self, place: Path, defect: str, **environment: str) -> None:
        self.place = place
        environment |= {"NVSHARE_HTTP": "127.0.0.1:0"}
        self.process, self.log = serve(place, "exec(" + repr(ONCE + defect) + ")", **environment)

    @property
    def socket(self) -> Path:
        return self.place / "run" / "s.sock"

    def client(self) -> WireClient:
        return WireClient(str(self.socket))

    def counted(self) -> int:
        address = self.log.wait_for("http at ").partition("http at ")[2]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith("nvshare_internal_errors_total"))


@contextlib.contextmanager
def scheduler_with(place: Path, defect: str, **environment: str) -> Iterator[Scheduler]:
    """It goes on: at the end a newcomer gets the whole card, the defect is counted, and the exit code is 0."""
    scheduler = Scheduler(place, defect, **environment)
    try:
        yield scheduler
        scheduler.log.wait_for(HEARD)
        with scheduler.client().register() as newcomer:
            newcomer.take_lock(15 * GIB)
        assert scheduler.counted() >= 1
    finally:
        scheduler.process.terminate()
        code = scheduler.process.wait(60)
    assert code == 0
    scheduler.log.wait_end()
    assert "internal error, ending" not in scheduler.log.text


CONNECTING = {
    "the object of a connection cannot be made": CLIENT + "fail_once(C, '__init__')",
    "its time to register cannot be limited": (
        "from nvshare.scheduler.clients.peer_timeout import PeerTimeout as T\nfail_once(T, 'start')"
    ),
    "what was read cannot be taken": CLIENT + "fail_once(C, 'buffer_updated')",
    "the read buffer cannot be given": CLIENT + "fail_once(C, 'get_buffer')",
    "its time cannot be charged": (
        "from nvshare.scheduler.clients.connection_admission import ConnectionAdmission as A\n"
        "fail_once(A, 'charge', skip=1)"
    ),
    "what it is told cannot be written": CLIENT + "fail_once(C, 'flush')",
}


@pytest.mark.parametrize("what", CONNECTING)
def test_a_defect_in_serving_a_connection_closes_it_and_nobody_elses(tmp_path: Path, what: str) -> None:
    with scheduler_with(tmp_path, CONNECTING[what]) as scheduler, scheduler.client() as unlucky:
        with contextlib.suppress(OSError):
            unlucky.send(registration(entry()), wire.ReqLock(0, 1, 15 * GIB, 0))
        unlucky.wait_closed()


ENDING = {
    "it is not known whether the process ends": (
        "import nvshare.scheduler.clients.connection as m\nfail_once(m, 'is_ending')"
    ),
    "its place cannot be released": (
        "from nvshare.scheduler.clients.connection_admission import ConnectionAdmission as A\nfail_once(A, 'release')"
    ),
    "its GPUs cannot be forgotten": (
        "from nvshare.scheduler.clients.connection_admission import ConnectionAdmission as A\n"
        "fail_once(A, 'forget_gpus')"
    ),
}


@pytest.mark.parametrize("what", ENDING)
def test_a_defect_at_the_end_of_a_connection_leaves_no_lock_behind(tmp_path: Path, what: str) -> None:
    with scheduler_with(tmp_path, CLIENT + ENDING[what]) as scheduler, scheduler.client().register() as holder:
        holder.take_lock(15 * GIB)


def test_a_defect_when_a_peer_was_silent_for_too_long_closes_its_connection(tmp_path: Path) -> None:
    defect = CLIENT + "fail_once(C, '_close')"
    with scheduler_with(tmp_path, defect, NVSHARE_PATIENCE_SECONDS="1") as scheduler, scheduler.client() as silent:
        silent.wait_closed()


HOLDER = """
import os, sys
from support.client import WireClient
client = WireClient(sys.argv[1]).register()
client.take_lock(15 << 30)
if os.fork():
    print("holds", flush=True)
sys.stdin.buffer.read()
"""


def test_a_defect_when_a_process_ends_is_seen_once_and_leaves_no_lock_behind(tmp_path: Path) -> None:
    defect = CLIENT + "fail_once(C, '_process_ended')"
    with scheduler_with(tmp_path, defect) as scheduler:
        environment = clean_environment()
        environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parents[1])
        command = [sys.executable, "-c", HOLDER, str(scheduler.socket)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
        with scheduler.client().register() as newcomer:
            newcomer.take_lock(15 * GIB)
        assert scheduler.counted() == 1
        holder.communicate()  # its child keeps the connection open until here


def test_a_defect_in_one_connection_of_an_account_that_owes_time_does_not_stop_the_others(tmp_path: Path) -> None:
    defect = (
        "from nvshare.scheduler.clients.connection_admission import Account as A, ConnectionAdmission as B\n"
        "B.has_several_accounts = property(lambda self: True, lambda self, value: None)\n"
        "A.delay_ns = lambda self, now: 1_000_000\n" + CLIENT + "fail_once(C, '_feed')"
    )
    with scheduler_with(tmp_path, defect) as scheduler, contextlib.ExitStack() as all_of_them:
        clients = [all_of_them.enter_context(scheduler.client()) for _ in range(3)]
        for client in clients:
            client.send(registration(entry()))
        scheduler.log.wait_for(HEARD)
        assert sorted(_is_answered(client) for client in clients) == [False, True, True]


def _is_answered(client: WireClient) -> bool:
    try:
        client.hear_until(wire.SchedOn)
        return True
    except ConnectionError:
        return False


REMOVED = {
    "the directory is looked at": "_directory_changed",
    "the socket is made again": "_serve",
}


@pytest.mark.parametrize("what", REMOVED)
def test_a_defect_when_the_socket_was_removed_is_tried_again(tmp_path: Path, what: str) -> None:
    skip = 1 if REMOVED[what] == "_serve" else 0
    defect = (
        "from nvshare.scheduler.clients.client_socket import ClientSocket as S\n"
        f"fail_once(S, {REMOVED[what]!r}, skip={skip})"
    )
    with scheduler_with(tmp_path, defect) as scheduler:
        scheduler.socket.unlink()
        wait_until(scheduler.socket.is_socket, "the socket is back")


def test_a_defect_in_reading_the_settings_again_changes_nothing(tmp_path: Path) -> None:
    defect = "from nvshare.scheduler.reload import Reload as R\nfail_once(R, 'reload')"
    with scheduler_with(tmp_path, defect) as scheduler:
        scheduler.process.send_signal(signal.SIGHUP)
        scheduler.log.wait_for(HEARD)
        scheduler.process.send_signal(signal.SIGHUP)
        scheduler.log.wait_for("The settings were read again")


def test_a_defect_in_closing_a_viewers_connection_ends_only_that(tmp_path: Path) -> None:
    defect = "import nvshare.scheduler.viewer_connection as v\nfail_once(v, '_close')"
    with scheduler_with(tmp_path, defect) as scheduler:
        scheduler.counted()


def test_a_defect_in_the_summary_of_a_second_ends_nothing(tmp_path: Path) -> None:
    defect = (
        "from nvshare.scheduler.observe.log import Log as L, log\n"
        "fail_once(L, 'flush_summary')\n"
        "import nvshare.scheduler.main as m; right = m.notify_systemd\n"
        "m.notify_systemd = lambda state: (log.call_later(0, log.flush_summary), right(state))"
    )
    with scheduler_with(tmp_path, defect):
        pass


def test_a_defect_in_looking_for_users_does_not_keep_a_private_scheduler_for_ever(tmp_path: Path) -> None:
    defect = "from nvshare.scheduler.shutdown import ExitWhenUnused as E\nfail_once(E, '_end_if_unused')"
    scheduler = Scheduler(tmp_path, defect, NVSHARE_EXIT_WHEN_UNUSED="1")
    assert scheduler.process.wait(60) == 0
    scheduler.log.wait_end()
    scheduler.log.wait_for(HEARD)


@pytest.mark.parametrize("part", ["handle", "next_deadline"])
def test_a_defect_of_the_core_that_the_alarm_meets_ends_the_scheduler(tmp_path: Path, part: str) -> None:
    defect = (
        "from nvshare.core.node import Node as N; from nvshare.core.events import AlarmRang\n"
        "right = N.handle, N.next_deadline; is_broken = []\n"
        "import nvshare.scheduler.engine as e; ring = e.Engine._ring\n"
        "e.Engine._ring = lambda self: (is_broken.append(1), ring(self))[1]\n"
        "def handle(self, now, event):\n"
        f"    assert not is_broken or {part!r} != 'handle', 'put in'\n"
        "    return right[0](self, now, event)\n"
        "def next_deadline(self):\n"
        f"    assert not is_broken or {part!r} != 'next_deadline', 'put in'\n"
        "    return right[1](self)\n"
        "N.handle, N.next_deadline = handle, next_deadline"
    )
    scheduler = Scheduler(tmp_path, defect, NVSHARE_LONG_WAIT_SECONDS="1")
    with scheduler.client().register() as holder, scheduler.client().register() as other:
        holder.take_lock(15 * GIB)
        other.request(15 * GIB)
        assert scheduler.process.wait(60) == 70
    scheduler.log.wait_end()
    scheduler.log.wait_for(r"\[ERROR\]: internal error, ending: AssertionError")
