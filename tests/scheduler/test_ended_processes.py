"""Orders for a process that is a group of its own are kept until it has ended, whether it is connected or not."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.core.events import LimitSet
from nvshare.core.model import GIB, Settings
from nvshare.core.node import Node
from nvshare.inventory.processes import start_of
from nvshare.scheduler.clients.identity import has_process_ended, process_group
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.operator import ended_processes
from nvshare.scheduler.operator.ended_processes import EndedProcesses
from nvshare.wire import messages as wire
from support.client import entry
from support.daemon import Daemon
from support.waiting import wait_until

WITHOUT_FIRST_THREAD = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print(flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def started(*command: str) -> tuple[subprocess.Popen[bytes], str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    return process, process_group(process.pid, start_of(Path(f"/proc/{process.pid}")))


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_a_process_has_ended_when_it_is_a_zombie_and_when_it_is_gone() -> None:
    process, group = started("sleep", "600")
    assert not has_process_ended(group)
    process.send_signal(signal.SIGKILL)
    wait_until(lambda: has_process_ended(group), "the process ends")
    assert Path(f"/proc/{process.pid}/stat").exists()
    end(process)
    assert has_process_ended(group)


def test_a_process_whose_first_thread_has_ended_has_not() -> None:
    process, group = started(sys.executable, "-c", WITHOUT_FIRST_THREAD)
    assert process.stdout is not None
    process.stdout.readline()
    stat = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: ") Z " in stat.read_text(), "its first thread ends")
    assert not has_process_ended(group)
    end(process)


@pytest.mark.parametrize(
    "changed",
    [
        lambda group: group.replace("-", "-1", 1),
        lambda group: group + "0",
        lambda group: "process/17",
        lambda group: "process/",
        lambda group: "process/" + "9" * 30,
        lambda group: "process/0-0-0",
    ],
    ids=["another start", "another boot", "an older name", "no name", "no pid", "pid 0"],
)
def test_a_group_that_names_no_process_is_one_that_has_ended(changed: Callable[[str], str]) -> None:
    process, group = started("sleep", "600")
    assert has_process_ended(changed(group))
    end(process)


def test_orders_leave_with_their_process_and_few_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_processes, "MAX_LOOKED_AT", 2)
    process, lives = started("sleep", "600")

    async def main() -> None:
        engine = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop())
        for group in (lives, *(f"process/1-0-{number}" for number in range(4)), "run/1"):
            engine.post(LimitSet(group, GIB))
        sweeper, left = EndedProcesses(engine), []
        for _ in range(5):
            sweeper.sweep()
            left.append(len(engine.node.groups))
        assert left[0] == 5
        assert sorted(engine.node.groups) == [lives, "run/1"]

    asyncio.run(main())
    end(process)


def test_a_process_that_connects_again_keeps_its_limit(daemon: Daemon) -> None:
    with daemon.client().register(entry(16), run=bytes(16)) as client:
        daemon.ctl("limit", client.name, "4Gi")
    for _ in range(3):
        with daemon.client().register(entry(16), run=bytes(16)) as client:
            assert client.hear_until(wire.UpdateLimit).limit == 4 * GIB
