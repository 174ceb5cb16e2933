"""Trouble that is nobody's fault, or ours: no descriptors, a log that nobody reads, a hanging driver, a mistake."""

import asyncio
import contextlib
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.core.events import ClientLeft, ClientRegistered, GpuFound
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.inventory.gpus import Sample
from nvshare.inventory.nvml import GpuLostError
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.sources import nvml_poll
from nvshare.scheduler.sources.nvml_poll import NvmlPoll
from nvshare.wire import messages as wire
from support.client import WireClient, entry, registration
from support.daemon import clean_environment
from support.fixtures import StartDaemon
from support.log import LogReader


def test_with_few_descriptors_fewer_clients_are_let_in_and_those_work(start_daemon: StartDaemon) -> None:
    few = ("bash", "-c", 'ulimit -n 256; exec "$0" "$@"')
    daemon = start_daemon("--http", "127.0.0.1:0", wrapper=few)
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(daemon.client().register()) for _ in range(32)]
        for _ in range(200):
            daemon.client().wait_closed()
        for client in inside:
            client.take_lock()
        assert daemon.metric("nvshare_rejected_connections_total", kind="refused") == 200
        daemon.ctl("status")
    daemon.log.wait_for("32 connections are open already")
    assert "Traceback" not in daemon.log.text


PROGRAM = "import sys; from nvshare.scheduler.main import main; {0}; sys.exit(main(sys.argv[1:]))"


def start(place: Path, prelude: str, stderr: Any = subprocess.PIPE, **environment: str) -> subprocess.Popen[bytes]:
    """A scheduler with something done to it first."""
    ways = ["--socket", f"{place}/run/s.sock", "--operator-socket", f"{place}/op/c.sock", "--kubernetes=off"]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(prelude), *ways, "--nvml=off"],
        stderr=stderr,
        env=clean_environment(**environment),
    )


def test_a_log_that_nobody_reads_holds_up_nobody(tmp_path: Path) -> None:
    unread, stderr = os.pipe()
    fcntl.fcntl(stderr, fcntl.F_SETPIPE_SZ, 4096)
    process = start(tmp_path, "pass", stderr)
    os.close(stderr)
    with os.fdopen(unread, "rb") as pipe:
        assert pipe.readline().endswith(b"listens at %s/run/s.sock\n" % str(tmp_path).encode())
        for _ in range(60):
            with WireClient(f"{tmp_path}/run/s.sock").register() as client:
                client.release(client.take_lock())
                client.send_bytes(b"something to complain about")
                client.wait_closed()
        process.terminate()
        assert process.wait(60) == 0


def test_a_mistake_of_ours_ends_it_with_a_line_and_code_70_and_clients_are_free(tmp_path: Path) -> None:
    mistake = "import nvshare.core.turns as t; t.Turns.work_finished = lambda self, now, seat: 1 // 0"
    process = start(tmp_path, mistake)
    assert process.stderr is not None
    log = LogReader(process.stderr)
    log.wait_for("listens at")
    with WireClient(f"{tmp_path}/run/s.sock").register() as client:
        client.take_lock()
        client.send(wire.Idle(0))
        client.wait_closed()
    assert process.wait(60) == 70
    log.wait_end()
    log.wait_for(r"\[NVSHARE\]\[ERROR\]: internal error, ending: ZeroDivisionError")
    assert "Traceback" in log.text
    assert not (tmp_path / "run" / "s.sock").exists()


def test_a_failure_of_the_core_ends_the_scheduler_even_if_an_operator_caused_it(tmp_path: Path) -> None:
    mistake = "import nvshare.core.node as n; n.Node.handle = lambda *a: 1 // 0"
    process = start(tmp_path, mistake)
    assert process.stderr is not None
    log = LogReader(process.stderr)
    log.wait_for("listens at")
    with contextlib.suppress(operator_client.UnreachableError):
        operator_client.ask(f"{tmp_path}/op/c.sock", admin.SetScheduling(on=False))
    assert process.wait(60) == 70
    log.wait_end()
    log.wait_for(r"\[NVSHARE\]\[ERROR\]: internal error, ending: ZeroDivisionError")


def test_a_start_that_takes_longer_than_the_settling_time_costs_nobody_its_lock(tmp_path: Path) -> None:
    path = f"{tmp_path}/run/s.sock"
    first = start(tmp_path, "pass")
    assert first.stderr is not None
    LogReader(first.stderr).wait_for("listens at")
    with WireClient(path).register() as client:
        lock = client.take_lock(9 * GIB)
        first.kill()
        first.wait()
    slow = (  # the start takes 50 s by its clock
        "import time; from nvshare.scheduler.engine import Engine;"
        " from nvshare.scheduler.operator.remembered_limits import RememberedLimits as limits;"
        " right, clock, late = limits.restore, time.monotonic_ns, []; time.monotonic_ns = lambda: clock() + sum(late);"
        " Engine.__init__.__kwdefaults__['clock'] = time.monotonic_ns;"
        " limits.restore = lambda self: (late.append(50 * 10**9), right(self))"
    )
    second = start(tmp_path, slow, NVSHARE_SETTLE_SECONDS="20")
    assert second.stderr is not None
    LogReader(second.stderr).wait_for("listens at")
    holds = entry(0, state=wire.ClaimState.HOLDING, lock=lock, swappable=9 * GIB, contexts=1)
    with WireClient(path).register(holds) as client:
        assert not [message for message in client.hear_all() if isinstance(message, (wire.LockOk, wire.DropLock))]
    second.terminate()
    assert second.wait(60) == 0


FIRST_TIME_ONLY = (
    "import itertools; from nvshare import translation as t; from nvshare.{0}; times = itertools.count(); "
)
DEFECTS = {
    "a message": (
        FIRST_TIME_ONLY.format("wire import messages as w")
        + "right = t.EVENTS[w.ReqLock]; t.EVENTS[w.ReqLock] = lambda *a: right(*a) if next(times) else 1 // 0"
    ),
    "a registration": (
        FIRST_TIME_ONLY.format("core import actions")
        + "right = t.registration; t.registration = lambda *a: right(*a) if next(times) else 1 // 0"
    ),
    "a frame": (
        FIRST_TIME_ONLY.format("core import actions as a")
        + "right = t.FRAMES[a.GiveLock]; t.FRAMES[a.GiveLock] = lambda *a: right(*a) if next(times) else 1 // 0"
    ),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_a_defect_in_translating_closes_that_connection_and_nobody_elses(tmp_path: Path, what: str) -> None:
    process = start(tmp_path, DEFECTS[what])
    assert process.stderr is not None
    log = LogReader(process.stderr)
    log.wait_for("listens at")
    with WireClient(f"{tmp_path}/run/s.sock") as unlucky:
        unlucky.send(registration(entry()), wire.ReqLock(0, 1, GIB, 0))
        unlucky.wait_closed()
    log.wait_for(r"\[ERROR\]: A bug closed one client's connection, please report it: ZeroDivisionError")
    with WireClient(f"{tmp_path}/run/s.sock").register() as next_one:
        next_one.take_lock(15 * GIB)  # the first one has left nothing behind
        status = operator_client.ask(f"{tmp_path}/op/c.sock", admin.GetStatus())
        assert isinstance(status, admin.Status)
        assert [client.id for client in status.node.clients] == [next_one.id]
    process.terminate()
    assert process.wait(60) == 0
    log.wait_end()
    assert "Traceback" in log.text


OBSERVERS = {
    "metrics": "import nvshare.scheduler.observe.metrics as m; m.Metrics.observe = lambda self, step: 1 // 0",
    "log": "import nvshare.scheduler.observe.log as m; m.Log.observe = lambda self, step: 1 // 0",
    "remembered limits": (
        "import nvshare.scheduler.operator.remembered_limits as m;"
        " m.RememberedLimits.observe = lambda self, step: 1 // 0"
    ),
}


@pytest.mark.parametrize("what", OBSERVERS)
def test_an_observer_that_fails_keeps_nobody_else_from_a_step(tmp_path: Path, what: str) -> None:
    process = start(tmp_path, OBSERVERS[what])
    assert process.stderr is not None
    log = LogReader(process.stderr)
    log.wait_for("listens at")
    with WireClient(f"{tmp_path}/run/s.sock").register(run=bytes(range(16))) as client:
        operator_client.ask(f"{tmp_path}/op/c.sock", admin.SetLimit(f"{client.id:04x}", 4 * GIB))
        client.release(client.take_lock())
        client.take_lock()
        last = operator_client.ask(f"{tmp_path}/op/c.sock", admin.GetEvents(last=1))
        assert isinstance(last, admin.StepLine)
        assert last.clients == (client.name,)
    process.terminate()
    assert process.wait(60) == 0
    log.wait_end()
    assert log.text.count("A bug kept") == 1
    assert "Traceback" in log.text


class FakeNvml:
    """NVML whose answer to one question is given from outside."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answer = threading.Event()
        self.error: Exception | None = None
        self.questions = 0

    def sample(self, gpu: str) -> Sample:
        self.asked.set()
        self.questions += 1
        self.answer.wait()
        if self.error is not None:
            raise self.error
        return Sample({77: 3 * GIB}, 3 * GIB, 16 * GIB)


def measuring(nvml: FakeNvml) -> tuple[Node, NvmlPoll]:
    node = Node(Settings(), epoch=1)
    engine = Engine(node, asyncio.get_running_loop())
    poll = NvmlPoll(engine, cast("Any", nvml))
    engine.observers_of[ClientRegistered].append(poll.observe)
    engine.post(ClientRegistered(1, "process/1", "x", "x", (Claim("g", 16 * GIB),)))
    return node, poll


def test_a_driver_that_hangs_keeps_neither_the_loop_nor_the_end_waiting() -> None:
    nvml = FakeNvml()

    async def main() -> None:
        _, poll = measuring(nvml)
        task = asyncio.create_task(poll.run())
        while not nvml.asked.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())  # or it waits for the answer for ever
    nvml.answer.set()


@pytest.mark.parametrize("error", [None, GpuLostError("fallen off the bus")])
def test_what_the_driver_says_reaches_the_core_and_a_lost_gpu_ends_nothing(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_poll, "INTERVAL_S", 0.001)
    nvml = FakeNvml()
    nvml.error = error
    nvml.answer.set()

    async def main() -> int:
        node, poll = measuring(nvml)
        task = asyncio.create_task(poll.run())
        async with asyncio.timeout(60):
            while nvml.questions < 2 or (error is None and not node.gpus["g"].memory.foreign):
                await asyncio.sleep(0.001)
        assert not task.done()
        task.cancel()
        return node.gpus["g"].memory.foreign

    assert asyncio.run(main()) == (3 * GIB if error is None else 0)


class LeavingNvml:
    """NVML that lists a process until the test says that it is gone."""

    def __init__(self) -> None:
        self.processes = {77: 3 * GIB}
        self.questions = 0

    def sample(self, gpu: str) -> Sample:
        self.questions += 1
        return Sample(dict(self.processes), sum(self.processes.values()), 16 * GIB)


def test_the_memory_of_a_client_that_exits_is_foreign_only_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_poll, "INTERVAL_S", 0.001)
    nvml = LeavingNvml()

    async def main() -> None:
        node = Node(Settings(), epoch=1)
        engine = Engine(node, asyncio.get_running_loop())
        poll = NvmlPoll(engine, cast("Any", nvml))
        engine.observers_of[ClientRegistered].append(poll.observe)
        engine.post(GpuFound("g", 16 * GIB, 0, "card"))
        engine.post(ClientRegistered(1, "process/1", "x", "x", (Claim("g", 16 * GIB),), pid=77))
        engine.post(ClientLeft(1))
        task = asyncio.create_task(poll.run())
        async with asyncio.timeout(60):
            while node.gpus["g"].memory.foreign != 3 * GIB or nvml.questions < 10:
                await asyncio.sleep(0.001)
            nvml.processes.clear()
            while node.gpus["g"].memory.foreign:
                await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(main())
