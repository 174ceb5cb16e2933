"""Trouble that is nobody's fault, or ours: no descriptors, a log that nobody reads, a hanging driver, a mistake."""

import asyncio
import contextlib
import fcntl
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from nvshare.core.events import ClientLeft, ClientRegistered, GpuFound
from nvshare.core.model import GIB, SECOND, Claim, Settings
from nvshare.core.node import Node
from nvshare.inventory.gpus import Sample
from nvshare.inventory.nvml import GpuLostError
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.sources import nvml_poll
from nvshare.scheduler.sources.nvml_poll import NvmlPoll
from nvshare.wire import messages as wire
from support.altered_scheduler import serve, start
from support.client import WireClient, entry
from support.fixtures import StartDaemon


def test_with_few_descriptors_fewer_clients_are_accepted_and_those_work(start_daemon: StartDaemon) -> None:
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


def test_a_start_that_takes_longer_than_the_settling_time_costs_nobody_its_lock(tmp_path: Path) -> None:
    path = f"{tmp_path}/run/s.sock"
    first, _ = serve(tmp_path, "pass")
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
    second, _ = serve(tmp_path, slow, NVSHARE_SETTLE_SECONDS="20")
    holds = entry(0, state=wire.ClaimState.HOLDING, lock=lock, swappable=9 * GIB, contexts=1)
    with WireClient(path).register(holds) as client:
        assert not [message for message in client.hear_all() if isinstance(message, (wire.LockOk, wire.DropLock))]
    second.terminate()
    assert second.wait(60) == 0


class FakeNvml:
    """NVML whose answer to one question is given from outside."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answer = threading.Event()
        self.error: Exception | None = None
        self.questions = 0
        self.is_given_up = False
        """No answer was given for a minute: the test waited for one, too."""

    def sample(self, gpu: str) -> Sample:
        self.asked.set()
        self.questions += 1
        self.is_given_up = not self.answer.wait(60)
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
        async with asyncio.timeout(60):
            while not nvml.asked.is_set():
                await asyncio.sleep(0.001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not nvml.is_given_up, "the loop, or its end, waited for the answer"
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


def test_a_process_that_runs_unshared_is_named_also_if_there_are_no_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_poll, "INTERVAL_S", 0.001)
    monkeypatch.setattr(nvml_poll, "UNUSED_INTERVAL_S", 0.001)
    nvml = LeavingNvml()
    nvml.processes.clear()

    async def main() -> None:
        node = Node(Settings(), epoch=1)
        engine = Engine(node, asyncio.get_running_loop())
        engine.post(GpuFound("g", 16 * GIB, 0, "card"))
        task = asyncio.create_task(NvmlPoll(engine, cast("Any", nvml)).run())
        async with asyncio.timeout(60):
            while nvml.questions < 3:
                await asyncio.sleep(0.001)
            nvml.processes[77] = 3 * GIB
            while 77 not in node.gpus["g"].foreign_pids:
                await asyncio.sleep(0.001)
            nvml.processes.clear()
            while 77 in node.gpus["g"].foreign_pids:
                await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(main())


def test_nothing_is_measured_while_programs_of_an_earlier_scheduler_register_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvml_poll, "SETTLING_INTERVAL_S", 0)
    nvml = LeavingNvml()
    sleep, intervals = asyncio.sleep, asyncio.Semaphore(0)

    async def counted(seconds: float) -> None:
        intervals.release()
        await sleep(seconds)

    async def main() -> list[int]:
        node = Node(Settings(), epoch=1, settles_at=SECOND)
        clock = [0]
        engine = Engine(node, asyncio.get_running_loop(), clock=lambda: clock[0])
        engine.post(GpuFound("g", 16 * GIB, 0, "card"))
        poll = NvmlPoll(engine, cast("Any", nvml))
        monkeypatch.setattr(asyncio, "sleep", counted)
        task = asyncio.create_task(poll.run())
        async with asyncio.timeout(60):
            for _ in range(3):
                await intervals.acquire()
            questions = [nvml.questions]
            clock[0] = SECOND
            engine.post(GpuFound("g", 16 * GIB, 0, "card"))
            while not nvml.questions:
                await sleep(0.001)
        task.cancel()
        return [*questions, nvml.questions]

    assert asyncio.run(main()) == [0, 1]


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
