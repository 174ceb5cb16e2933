"""Defects of ours: one of the core ends the scheduler, any other ends only what it is in."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.core.actions import Action
from nvshare.core.events import ClientLeft, Event, GpuFound
from nvshare.core.model import GIB, Settings
from nvshare.core.node import Node
from nvshare.scheduler.engine import Engine
from nvshare.wire import messages as wire
from support.altered_scheduler import serve
from support.client import WireClient, entry, registration


def test_a_mistake_of_ours_ends_it_with_a_line_and_code_70_and_clients_are_free(tmp_path: Path) -> None:
    mistake = "import nvshare.core.turns.turns as t; t.Turns.work_finished = lambda self, now, seat: 1 // 0"
    process, log = serve(tmp_path, mistake)
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
    process, log = serve(tmp_path, mistake)
    with contextlib.suppress(operator_client.UnreachableError):
        operator_client.ask(f"{tmp_path}/op/c.sock", admin.SetScheduling(on=False))
    assert process.wait(60) == 70
    log.wait_end()
    log.wait_for(r"\[NVSHARE\]\[ERROR\]: internal error, ending: ZeroDivisionError")


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
    process, log = serve(tmp_path, DEFECTS[what])
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
    "the look at the host's memory": (
        "import nvshare.scheduler.sources.host_memory as m; m.HostMemoryPoll.before = lambda self, now, event: 1 // 0"
    ),
}


@pytest.mark.parametrize("what", OBSERVERS)
def test_an_observer_that_fails_keeps_nobody_else_from_a_step(tmp_path: Path, what: str) -> None:
    process, log = serve(tmp_path, OBSERVERS[what], NVSHARE_HOST_MEMORY="on")
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


TASKS = {
    "the watch for silence": "from nvshare.scheduler.clients.silence import SilenceWatch as task",
    "the poll of host memory": "from nvshare.scheduler.sources.host_memory import HostMemoryPoll as task",
    "the account of use": "from nvshare.scheduler.observe.usage_file import UsageFile as task",
}
FAILS_ONCE = (
    "{0}; import itertools; import nvshare.scheduler.back_off as m; m.FIRST_S = 0.01;"
    " right, times = task.run, itertools.count(); again = lambda: sys.stderr.write('it runs again\\n');"
    " task.run = lambda self: (again(), right(self))[1] if next(times) else 1 // 0"
)


@pytest.mark.parametrize("what", TASKS)
def test_a_task_that_fails_ends_nothing_else_and_starts_again(tmp_path: Path, what: str) -> None:
    process, log = serve(tmp_path, FAILS_ONCE.format(TASKS[what]), NVSHARE_HOST_MEMORY="on")
    log.wait_for(r"\[ERROR\]: A bug ended .*, which starts again in 0.01 s, please report it: ZeroDivisionError")
    log.wait_for("it runs again")
    with WireClient(f"{tmp_path}/run/s.sock").register() as client:
        client.take_lock()
    process.terminate()
    assert process.wait(60) == 0


def test_a_failure_of_the_core_is_the_cores_if_it_was_caused_by_what_comes_before_an_event() -> None:
    class Broken(Node):
        def handle(self, now: int, event: Event) -> list[Action]:
            return super().handle(now, event) if isinstance(event, GpuFound) else [1 // 0]  # type: ignore[list-item]

    async def main() -> None:
        engine = Engine(Broken(Settings(), epoch=1), asyncio.get_running_loop())
        failures: list[Exception] = []
        engine.on_failure = failures.append
        engine.before = lambda now, event: isinstance(event, GpuFound) and engine.post(ClientLeft(1))  # type: ignore[assignment]
        with pytest.raises(ZeroDivisionError):
            engine.post(GpuFound("g", 16 * GIB, 0, "card"))
        assert len(failures) == 1

    asyncio.run(main())
