"""Three programs on two GPUs that start at one moment, in every order and whatever the scheduler does meanwhile: all of
them share once there is a scheduler that answers. None of them runs unshared, unseen."""

import contextlib
import itertools
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from libnvshare.machine import WORK
from libnvshare.programs import CHECKS, GIB, NOT_INSTALLED, Program, Programs
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import overlaps, read_traces
from support.daemon import Daemon
from support.waiting import wait_until

JOIN_S = 30
"""The default of NVSHARE_JOIN_MS."""
MEMORY = 10 * GIB
"""Two programs with so much do not fit on a card."""
KINDS = ({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "1,0"})
ORDERS = list(itertools.permutations(KINDS))
OPTIONS = ("--switch-time-mode=fixed", "--switch-time-fixed=1", "--nvml=on")


class Site(Programs):
    """Two simulated cards, and programs under the library. The scheduler starts when the test says so."""

    def __init__(self, directory: Path) -> None:
        self.cards = directory / "gpus"
        self.cards.mkdir()
        values = {"directory": str(self.cards), "gpus": 2, "memory": "16Gi", "scale": 0.01, "trace": 1}
        self.cuda: dict[str, Any] = SimGpu().with_values(**values).environment({})
        self.place = directory / "daemon"
        self.socket = self.place / "run" / "scheduler.sock"
        self.daemon: Daemon | None = None
        super().__init__(directory, {**self.cuda, "NVSHARE_SOCKET": str(self.socket)})

    def serve(self) -> Daemon:
        self.daemon = Daemon(self.place, *OPTIONS, **self.cuda)
        return self.daemon

    def make_directory(self) -> None:
        self.socket.parent.mkdir(parents=True)

    def start_three(self, order: tuple[dict[str, str], ...]) -> dict[str, Program]:
        """By their CUDA_VISIBLE_DEVICES. Nothing waits for an answer of one before the next one starts."""
        programs = {kind["CUDA_VISIBLE_DEVICES"]: self.start(**kind) for kind in order}
        for gpus, program in programs.items():
            for gpu in range(len(gpus.split(","))):
                program.say(f"init {gpu}\nalloc {MEMORY}\nspin 1000 1")
        return programs

    def seats(self) -> set[tuple[int, int]]:
        """The clients of each GPU: process id and number of the GPU."""
        assert self.daemon is not None
        gpus = self.daemon.status()["gpus"]
        return {(client["pid"], gpu["index"]) for gpu in gpus for client in gpu["clients"]}

    def running(self) -> list[int]:
        """How many run on each GPU."""
        assert self.daemon is not None
        gpus: list[dict[str, Any]] = self.daemon.status()["gpus"]
        return [sum(client["is_running"] for client in gpu["clients"]) for gpu in gpus]

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)
        finally:
            if self.daemon is not None:
                self.daemon.kill()


def check_that_all_share(site: Site, programs: dict[str, Program]) -> None:
    wanted = {(program.process.pid, int(gpu)) for gpus, program in programs.items() for gpu in gpus.split(",")}
    wait_until(lambda: site.seats() == wanted, "all are clients", JOIN_S)
    for gpus, program in programs.items():
        for _ in range(3 * len(gpus.split(","))):
            assert program.answer(JOIN_S)[0] == "0"
    wait_until(lambda: max(site.running()) <= 1, "a client that ran unshared and does not fit has stopped")
    all_share = time.monotonic_ns()
    for gpus, program in programs.items():
        program.say("alternate 100000 2000" if "," in gpus else "loop 100000 2000 4")
    assert all(int(program.answer()[1]) > 0 for program in programs.values())
    assert [overlap for overlap in overlaps(read_traces(site.cards), WORK) if overlap.begin_ns >= all_share] == []


def have_helpers(programs: dict[str, Program]) -> None:
    """They have found the driver, and try to connect."""
    wait_until(lambda: all(program.has_thread("nvshare") for program in programs.values()), "all try to connect")


def are_alone(programs: dict[str, Program]) -> None:
    wait_until(lambda: all("running unshared" in program.said() for program in programs.values()), "none is found")


@contextlib.contextmanager
def full_backlog(path: Path) -> Iterator[None]:
    """A socket that listens, accepts nothing, and has no place for one more: connect says EAGAIN."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        server.bind(str(path))
        server.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                one = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                one.connect(str(path))
        yield


Order = tuple[dict[str, str], ...]


def there_before(site: Site, order: Order) -> dict[str, Program]:
    site.serve()
    return site.start_three(order)


def there_at_the_same_moment(site: Site, order: Order) -> dict[str, Program]:
    programs = site.start_three(order)
    site.serve()
    return programs


def without_a_directory(site: Site, order: Order) -> dict[str, Program]:
    programs = site.start_three(order)
    are_alone(programs)
    site.serve()
    return programs


def without_a_socket(site: Site, order: Order) -> dict[str, Program]:
    site.make_directory()
    programs = site.start_three(order)
    are_alone(programs)
    site.serve()
    return programs


def refused(site: Site, order: Order) -> dict[str, Program]:
    site.make_directory()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(site.socket))
    programs = site.start_three(order)
    are_alone(programs)
    site.serve()
    return programs


def crowded(site: Site, order: Order) -> dict[str, Program]:
    site.make_directory()
    with full_backlog(site.socket):
        programs = site.start_three(order)
        have_helpers(programs)
    site.serve()
    return programs


def closed_at_once(site: Site, order: Order) -> dict[str, Program]:
    """As a scheduler that refuses them does."""
    site.make_directory()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(site.socket))
        server.listen(8)
        programs = site.start_three(order)
        for _ in range(6):
            server.accept()[0].close()
    site.serve()
    return programs


def stopped(site: Site, order: Order) -> dict[str, Program]:
    daemon = site.serve()
    daemon.process.send_signal(signal.SIGSTOP)
    programs = site.start_three(order)
    have_helpers(programs)
    daemon.process.send_signal(signal.SIGCONT)
    return programs


def killed_while_they_wait_for_its_answer(site: Site, order: Order) -> dict[str, Program]:
    daemon = site.serve()
    daemon.process.send_signal(signal.SIGSTOP)
    programs = site.start_three(order)
    have_helpers(programs)
    daemon.kill()
    site.serve()
    return programs


def replaced(site: Site, order: Order) -> dict[str, Program]:
    programs = there_before(site, order)
    wait_until(lambda: len(site.seats()) == 4, "all are clients")
    assert site.daemon is not None
    site.daemon.kill()
    site.serve()
    return programs


BEGINNINGS = (
    there_before, there_at_the_same_moment, without_a_directory, without_a_socket, refused, crowded, closed_at_once,
    stopped, killed_while_they_wait_for_its_answer, replaced,
)  # fmt: skip


@pytest.mark.parametrize(("number", "begin"), list(enumerate(BEGINNINGS)), ids=[one.__name__ for one in BEGINNINGS])
def test_three_programs_share_two_gpus_however_their_scheduler_begins(
    tmp_path: Path, number: int, begin: Callable[[Site, Order], dict[str, Program]]
) -> None:
    with Site(tmp_path) as site:
        check_that_all_share(site, begin(site, ORDERS[number % len(ORDERS)]))


PYTHON = """import ctypes, os, sys
assert ctypes.CDLL('libcuda.so.1').cuInit(0) == 0
if sys.argv[1] == 'execute' or not os.fork():
    os.execv(sys.argv[2], [sys.argv[2], 'dlsym'])
os.wait()
"""


def child_of(program: Program) -> int:
    pid = program.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


@pytest.mark.parametrize("how", ["execute", "fork"])
def test_a_python_program_that_becomes_another_between_its_first_call_and_its_first_work_shares(
    tmp_path: Path, how: str
) -> None:
    with Site(tmp_path) as site:
        site.serve()
        program = site.start(sys.executable, "-c", PYTHON, how, CHECKS / "lib_client", CUDA_VISIBLE_DEVICES="1")
        program.do("init 0")
        pid = child_of(program) if how == "fork" else program.process.pid
        program.do("spin 1000 1")
        assert (pid, 1) in site.seats()
        assert site.running()[1] == 1


def test_a_scheduler_that_does_not_answer_is_named_and_the_program_shares_when_it_does(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        daemon = site.serve()
        daemon.process.send_signal(signal.SIGSTOP)
        program = site.start(CUDA_VISIBLE_DEVICES="0", NVSHARE_JOIN_MS="200")
        program.do("init 0")
        program.do("spin 1000 1")
        line = f"the scheduler at {site.socket} has not answered: running unshared until it does"
        assert program.said().count(line) == 1
        daemon.process.send_signal(signal.SIGCONT)
        wait_until(lambda: (program.process.pid, 0) in site.seats(), "it is a client after all", JOIN_S)


def test_a_program_that_runs_unshared_is_named_although_the_scheduler_has_no_clients(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        daemon = site.serve()
        program = site.start(CUDA_VISIBLE_DEVICES="0", NVSHARE_SOCKET=NOT_INSTALLED)
        program.do("init 0")
        note = f"GPU 0: processes that are no clients and take no turns: {program.process.pid}."
        wait_until(lambda: note in daemon.ctl("status"), "it is named")
        assert site.seats() == set()
