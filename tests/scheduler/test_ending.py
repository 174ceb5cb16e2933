"""What a process holds counts until the kernel has taken it back, and not longer than that."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.core.events import ClientLeft, ClientSilent, Event
from nvshare.scheduler.clients import connection as connections
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
from scheduler.test_charged_time import serving
from scheduler.test_peers import first_line, script
from support.client import GIB, WireClient, entry, registration
from support.daemon import Daemon
from support.waiting import wait_until

RUN = bytes(range(16))
ENDING = """
import ctypes, os, platform, sys, threading
from support.client import WireClient, entry
limited = entry(0, limit=12 << 30, budget=12 << 30)
client = WireClient(sys.argv[1]).register(limited, own_limit=12 << 30, run=bytes(range(16)))
client.take_lock(10 << 30)
EXIT = {"x86_64": 60, "aarch64": 93}[platform.machine()]

def rest():
    while "Z" not in open("/proc/self/stat").read().rpartition(")")[2].split()[:1]:
        pass
    client.close()
    print("closed", flush=True)
    sys.stdin.buffer.readline()
    if "again" in sys.argv:
        again = WireClient(sys.argv[1]).register()
        print("registered", flush=True)
        sys.stdin.buffer.readline()
    os._exit(0)

threading.Thread(target=rest).start()
ctypes.CDLL(None).syscall(EXIT, 0)  # ends the first thread only: the process is ending, and not gone
"""


@pytest.fixture
def ending(daemon: Daemon) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a lock and 10 GiB that has closed its connection and ends when it gets a line."""
    process = script(ENDING, daemon.socket)
    assert first_line(process) == "closed"
    yield process
    process.kill()
    process.communicate()


def go_on(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def ask(member: WireClient, need: int) -> int:
    """The budget that it gets; it uses nothing, and returns what is recalled."""
    member.send(wire.BudgetAsk(0, 1, need))
    while True:
        message = member.hear()
        if isinstance(message, wire.BudgetRecall):
            member.send(wire.BudgetReturn(0, message.serial, message.keep, 0))
        elif isinstance(message, wire.Budget) and message.ask:
            return message.budget


def states(daemon: Daemon) -> list[str]:
    return [seat["state"] for gpu in daemon.status()["gpus"] for seat in gpu["clients"]]


def test_the_memory_on_the_card_counts_until_the_process_is_gone(
    daemon: Daemon, ending: subprocess.Popen[bytes]
) -> None:
    with daemon.client().register() as waits:
        waits.request(10 * GIB)
        waits.expect(wire.WaitForMem)
        go_on(ending)
        waits.hear_until(wire.LockOk)
    daemon.log.wait_for(r"Client left: \w+ \(process ended\)")


def test_the_memory_counts_against_the_limit_of_the_run_until_the_process_is_gone(
    daemon: Daemon, ending: subprocess.Popen[bytes]
) -> None:
    mine = entry(0, limit=12 * GIB, budget=12 * GIB)
    with daemon.client().register(mine, own_limit=12 * GIB, run=RUN) as member:
        assert ask(member, 10 * GIB) < 10 * GIB
        go_on(ending)
        wait_until(lambda: ask(member, 10 * GIB) >= 10 * GIB, "the limit is free again")


def test_a_process_that_registers_again_is_counted_once(daemon: Daemon) -> None:
    process = script(ENDING, daemon.socket, "again")
    assert first_line(process) == "closed"
    go_on(process)
    assert first_line(process) == "registered"
    wait_until(lambda: len(states(daemon)) == 1, "the client that it was before has left")
    process.kill()
    process.communicate()


def test_it_stays_for_a_bounded_time_and_gets_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "is_ending", lambda peer: True)
    monkeypatch.setattr(connections, "ENDING_S", 0.01)
    events: list[type[Event]] = []

    async def main(path: str) -> None:
        async with serving(path) as (engine, admission):
            engine.observers.append(lambda step: events.append(type(step.event)))
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(encode(registration(entry())))
                async with asyncio.timeout(60):
                    while not engine.node.clients:
                        await asyncio.sleep(0.001)
            async with asyncio.timeout(60):
                while engine.node.clients:
                    await asyncio.sleep(0.001)
            assert admission.connections == 0

    asyncio.run(main(str(tmp_path / "s")))
    assert events[1:] == [ClientSilent, ClientLeft]
