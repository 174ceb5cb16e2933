"""Many peers, or one that behaves like many: what they can take from others is bounded."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
from support.client import GIB, WireClient, entry, gpu_bytes, registration
from support.daemon import Daemon, clean_environment
from support.fixtures import StartDaemon

RUN = b"r" * 16


def hand_over(daemon: Daemon, one: WireClient, other: WireClient, times: int) -> float:
    """Pass a lock between two clients; the median of a hand-over, in seconds of the scheduler's processor time: what it
    does for others meanwhile. A busy machine does not change it. In mode auto the order is that of arrival."""
    daemon.ctl("set-mode", "auto")
    lock, taken = one.take_lock(10 * GIB), []
    other.request(10 * GIB)
    other.hear_until(wire.WaitForMem)
    for _ in range(times):
        began = daemon.processor_seconds()
        one.release(lock, again=True)
        lock = other.hear_until(wire.LockOk).lock
        taken.append(daemon.processor_seconds() - began)
        one, other = other, one
    one.release(lock)
    other.release(other.hear_until(wire.LockOk).lock)
    return median(taken)


def test_ten_thousand_connections_come_and_go_while_two_clients_take_turns(daemon: Daemon) -> None:
    def crowd() -> None:
        for wave in range(100):
            peers = [daemon.client() for _ in range(100)]
            if wave % 10 == 0:
                for peer in peers:
                    peer.register(entry(9))
            for peer in peers:
                peer.close()

    with daemon.client().register() as one, daemon.client().register() as other:
        before = daemon.memory_bytes()
        with ThreadPoolExecutor(1) as thread:
            comes = thread.submit(crowd)
            while not comes.done():
                hand_over(daemon, one, other, 10)
            comes.result()
        hand_over(daemon, one, other, 10)
        there = {client["id"] for gpu in daemon.status()["gpus"] for client in gpu["clients"]}
        assert there == {one.name, other.name}
        assert daemon.descriptors() < 40
        assert daemon.memory_bytes() - before < 40e6
    daemon.assert_alive()
    assert "Traceback" not in daemon.log.text


def test_one_connection_too_many_is_refused_and_the_others_stay(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("--max-clients", "20", "--http", "127.0.0.1:0")
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(daemon.client().register()) for _ in range(20)]
        for _ in range(30):
            daemon.client().wait_closed()
        daemon.log.wait_for("20 connections are open already")
        assert daemon.metric("nvshare_rejected_connections_total", kind="refused") == 30
        inside[0].close()
        daemon.log.wait_for(f"Client left: {inside[0].name}")
        stack.enter_context(daemon.client().register())
        assert inside[7].take_lock()


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every user may enter."""
    place = Path(tempfile.mkdtemp(prefix="nvs-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_user_who_fills_its_share_with_silence_leaves_room_for_others(open_place: Path) -> None:
    with Daemon(open_place, "--max-clients-per-group", "10") as daemon, contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(daemon.client())
        daemon.client().wait_closed()
        daemon.log.wait_for(r"uid/0 has 10 connections already \(max-clients-per-group\)")
        other = subprocess.run(
            [sys.executable, "-c", OTHER_USER, daemon.socket, encode(registration(entry())).hex()],
            capture_output=True,
            timeout=60,
        )
        assert other.stdout == b"answered\n", other.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_the_last_places_are_for_those_who_have_few(open_place: Path) -> None:
    with Daemon(open_place, "--max-clients", "24") as daemon, contextlib.ExitStack() as stack:
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER_USER + "sys.stdin.read()", daemon.socket, encode(registration(entry())).hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        daemon.log.wait_for("Client registered")
        for _ in range(20):
            stack.enter_context(daemon.client().register())
        daemon.client().wait_closed()
        daemon.log.wait_for(
            r"the last eighth of 24 connections \(max-clients\) is reserved for others than uid/0, which has 20"
        )
        second = subprocess.run(
            [sys.executable, "-c", OTHER_USER, daemon.socket, encode(registration(entry())).hex()],
            capture_output=True,
            timeout=60,
        )
        assert second.stdout == b"answered\n", second.stderr
        other.communicate()


OTHER_USER = """
import os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
peer.sendall(bytes.fromhex(sys.argv[2]))
print('answered' if peer.recv(100) else sys.exit(1))
"""


def test_a_flood_of_messages_does_not_hold_up_others(daemon: Daemon) -> None:
    """The flood never ends by itself: 1 MiB of requests at a time, read by a thread of its own."""
    with (
        daemon.client().register() as one,
        daemon.client().register() as other,
        daemon.client().register(entry(5)) as flooder,
    ):
        flooder.take_lock()
        is_over = threading.Event()

        def flood() -> None:
            messages = encode(wire.Idle(0)) * 60_000
            while not is_over.is_set():
                flooder.send_bytes(messages)

        with ThreadPoolExecutor(1) as thread:
            flooding = thread.submit(flood)
            try:
                usual = hand_over(daemon, one, other, 50)
            finally:
                is_over.set()
            flooding.result()
        assert usual < 0.25


FLOODERS = """
import os, sys, threading
from support.client import WireClient, entry
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
run = b"f" * 16
clients = [WireClient(sys.argv[1]).register(entry(5), run=run) for _ in range(400)]
clients[0].take_lock()
words = b"".join(encode(wire.MemUpdate(0, 0, number, 0)) for number in range(5000))

def flood(client):
    while True:
        client.send_bytes(words)

for client in clients:
    threading.Thread(target=flood, args=(client,), daemon=True).start()
print("flooding", flush=True)
sys.stdin.buffer.read()
os._exit(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_flooding_processes_of_one_user_hardly_delay_another_and_stay_connected(open_place: Path) -> None:
    environment = clean_environment()
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parents[1])
    with Daemon(open_place, "--log-level", "warning", "--patience-seconds", "2") as daemon:
        with daemon.client().register() as one, daemon.client().register() as other:
            flooders = subprocess.Popen(
                [sys.executable, "-c", FLOODERS, daemon.socket],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
            assert flooders.stdout is not None
            assert flooders.stdout.readline() == b"flooding\n"
            usual = []
            for _ in range(2):  # A flooder's frame that takes too long began before the second one's, at the latest.
                with daemon.client().register(entry(6)) as slow:
                    slow.send_bytes(encode(wire.ReqLock(0, 0, 0, 0))[:7])
                    while not slow.is_closed():
                        usual.append(hand_over(daemon, one, other, 21))
            there = [client for gpu in daemon.status()["gpus"] for client in gpu["clients"]]
            flooders.communicate()
        daemon.assert_alive()
    assert len(there) == 400 + 2
    assert median(usual) < 0.05
    assert daemon.log.text.count("half a frame") == 2, "only those that sent nothing more"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_gpus_that_one_user_invents_do_not_lock_out_another(open_place: Path) -> None:
    with Daemon(open_place) as daemon:
        stay = OTHER_USER + "sys.stdin.read()"
        liars = []
        for start in (100, 200, 300):
            frame = encode(registration(*[entry(start + number) for number in range(64)])).hex()
            liar = subprocess.Popen(
                [sys.executable, "-c", stay, daemon.socket, frame], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert liar.stdout is not None
            liars.append((liar, liar.stdout.readline()))
        assert [said for _, said in liars] == [b"answered\n", b"answered\n", b""]
        daemon.log.wait_for("the programs of uid/65534 name more than 128 GPUs")
        with daemon.client().register(*[entry(number) for number in range(16)]) as honest:
            honest.take_lock(gpu=15)
        for liar, _ in liars:
            liar.communicate()


def test_a_flood_of_questions_about_budget_does_not_hold_up_others_and_each_is_answered(daemon: Daemon) -> None:
    """While a sibling does not answer a recall. How many may be open at once: tests/core/test_budget_questions.py."""
    limited = {"run": RUN, "own_limit": 4 * GIB}
    with (
        daemon.client().register() as one,
        daemon.client().register() as other,
        daemon.client().register(entry(5, swappable=3 * GIB), **limited) as mute,
        daemon.client().register(entry(5), **limited) as asker,
        ThreadPoolExecutor() as pool,
    ):
        assert mute.id
        asker.hear_all()
        before = daemon.memory_bytes()
        # It reads meanwhile: a client that does not read is closed.
        answers = pool.submit(lambda: [asker.hear_until(wire.Budget).ask for _ in range(5_000)])
        asker.send_bytes(b"".join(encode(wire.BudgetAsk(0, number, 3 * GIB)) for number in range(100, 5_100)))
        assert hand_over(daemon, one, other, 21) < 0.5
        assert sorted(answers.result()) == list(range(100, 5_100))
        assert daemon.memory_bytes() - before < 20e6


def test_a_pod_whose_processes_claim_more_than_numbers_hold_is_answered(daemon: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        absurd = entry(5, swappable=1 << 56, unswappable=1 << 56)
        crowd = [stack.enter_context(daemon.client().register(absurd, run=RUN)) for _ in range(140)]
        crowd[0].send(wire.BudgetAsk(0, 7, 0))
        assert crowd[0].hear_until(wire.Budget).others == wire.MAX_BYTES
        daemon.assert_alive()


def test_made_up_gpus_are_bounded_and_forgotten(daemon: Daemon) -> None:
    def some(start: int) -> list[wire.GpuEntry]:
        return [entry(start + number) for number in range(64)]

    with daemon.client().register() as real, daemon.client().register(*some(100)) as first:
        with daemon.client() as third:
            third.send(registration(*some(200)))
            third.wait_closed()
        daemon.log.wait_for("name more than 128 GPUs")
        assert len(daemon.status()["gpus"]) == 65
        first.take_lock(gpu=63)
        real.take_lock()
    daemon.log.wait_for("Client left", times=2)
    assert daemon.status()["gpus"] == []


def test_made_up_gpus_over_time_leave_nothing_behind(daemon: Daemon) -> None:
    with daemon.client().register() as real:
        real.take_lock()
        for number in range(700):
            with daemon.client().register(entry(1000 + number)) as liar:
                liar.take_lock()
        text = daemon.metrics_text()
        assert text.count("nvshare_lock_wait_seconds_count{") < 300
        assert f'nvshare_gpu_running_clients{{gpu="GPU-{gpu_bytes(0).hex()[:8]}' in text
