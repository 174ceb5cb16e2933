"""A scheduler's beginning and end: whose sockets are whose, what outlives it, what it costs at rest."""

import contextlib
import fcntl
import math
import os
import platform
import resource
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.wire import messages as wire
from support.client import GIB, WireClient, entry
from support.daemon import PROGRAM, Daemon, clean_environment, run_scheduler
from support.fixtures import StartDaemon
from support.waiting import wait_until


def options_of(daemon: Daemon) -> list[str]:
    return ["--socket", daemon.socket, "--operator-socket", daemon.operator_socket, "--nvml=off", "--kubernetes=off"]


def test_sockets_and_directories_have_the_modes_that_keep_pods_out(daemon: Daemon) -> None:
    def mode(path: str | Path) -> int:
        return stat.S_IMODE(Path(path).stat().st_mode)

    assert mode(daemon.socket) == 0o666
    assert mode(Path(daemon.socket).parent) == 0o755
    assert mode(daemon.operator_socket) == 0o600
    assert mode(Path(daemon.operator_socket).parent) == 0o700


def test_a_second_scheduler_on_the_same_sockets_refuses_and_the_first_goes_on(daemon: Daemon) -> None:
    second = run_scheduler(*options_of(daemon))
    assert second.returncode == 2
    assert second.stderr.startswith("nvshare-scheduler: another scheduler is running at ")
    assert len(second.stderr.splitlines()) == 1
    with daemon.client().register() as client:
        client.take_lock()


def test_of_many_started_at_once_one_stays(tmp_path: Path) -> None:
    ways = [f"--socket={tmp_path}/run/s.sock", f"--operator-socket={tmp_path}/op/c.sock", "--nvml=off"]
    started = [
        subprocess.Popen(
            [*PROGRAM, *ways, "--kubernetes=off"], stderr=subprocess.PIPE, env=clean_environment(), text=True
        )
        for _ in range(4)
    ]
    wait_until(lambda: sum(process.poll() is not None for process in started) >= 3, "three have ended")
    assert sorted(str(process.poll()) for process in started) == ["2", "2", "2", "None"]
    (stays,) = [process for process in started if process.poll() is None]
    assert stays.stderr is not None
    assert "listens at" in stays.stderr.readline()
    WireClient(f"{tmp_path}/run/s.sock").register().take_lock()
    for process in started:
        process.terminate()
        process.communicate()


def test_a_scheduler_with_another_operator_socket_cannot_take_the_clients_socket(
    daemon: Daemon, tmp_path: Path
) -> None:
    other = ["--operator-socket", str(tmp_path / "other" / "control.sock")]
    second = run_scheduler("--socket", daemon.socket, *other, "--nvml=off", "--kubernetes=off")
    assert second.returncode == 2
    assert "another scheduler is answering at" in second.stderr
    daemon.client().register()


def test_a_dead_schedulers_sockets_are_replaced(start_daemon: StartDaemon) -> None:
    first = start_daemon()
    first.kill()
    assert Path(first.socket).is_socket()
    second = start_daemon("--settle-seconds", "0")
    with second.client().register() as client:
        client.take_lock()


def test_a_path_that_a_container_runtime_made_a_directory_is_repaired(
    tmp_path: Path, start_daemon: StartDaemon
) -> None:
    (tmp_path / "run" / "scheduler.sock").mkdir(parents=True)
    (tmp_path / "operator" / "control.sock").mkdir(parents=True)
    daemon = start_daemon()
    daemon.client().register()
    daemon.ctl("status")


def test_sigterm_ends_it_cleanly_with_clients_and_operators_connected(daemon: Daemon) -> None:
    with daemon.client().register() as client, socket.socket(socket.AF_UNIX) as follower:
        client.take_lock()
        follower.connect(daemon.operator_socket)
        follower.sendall(b'{"op":"events","follow":true,"last":1}\n')
        assert follower.recv(1)
        assert daemon.stop() == 0
        client.wait_closed()
    assert not Path(daemon.socket).exists()
    assert not Path(daemon.operator_socket).exists()
    assert "nvshare-scheduler stops; running programs continue" in daemon.log.lines[-1]
    assert "Traceback" not in daemon.log.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_further_signals_do_not_disturb_a_clean_end(daemon: Daemon, number: signal.Signals) -> None:
    daemon.process.send_signal(signal.SIGTERM)
    daemon.log.wait_for("nvshare-scheduler stops")
    while daemon.process.poll() is None:
        daemon.process.send_signal(number)
    assert daemon.process.returncode == 0


def test_without_a_descriptor_for_systemd_it_ends_cleanly_too(daemon: Daemon) -> None:
    with daemon.client().register():  # It has been answered, so the message READY=1 has been sent.
        used = {int(entry.name) for entry in Path(f"/proc/{daemon.pid}/fd").iterdir()}
        lowest_unused = min(set(range(len(used) + 1)) - used)
        _, most = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (lowest_unused, most))
        assert daemon.stop() == 0
    assert "cannot report STOPPING=1 to systemd: Too many open files" in daemon.log.text
    assert not Path(daemon.socket).exists()


def test_sigint_ends_it_too(daemon: Daemon) -> None:
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(60) == 0


def test_after_a_kill_holders_keep_their_locks_and_newcomers_wait_until_claims_are_in(
    start_daemon: StartDaemon,
) -> None:
    first = start_daemon()
    holder = first.client().register()
    lock = holder.take_lock(10 * GIB)
    first.kill()
    second = start_daemon("--settle-seconds", "3")
    newcomer = second.client().register()
    newcomer.request(10 * GIB)
    assert isinstance(newcomer.expect(wire.WaitForMem), wire.WaitForMem)
    claim = entry(state=wire.ClaimState.HOLDING, lock=lock, swappable=10 * GIB)
    holder = second.client().register(claim)
    (running,) = [c for c in second.status()["gpus"][0]["clients"] if c["is_running"]]
    assert running["id"] == holder.name
    second.log.wait_for(rf"Client registered: {holder.name} .*holding 1 lock")
    # The claim is worth something: the old number gives the lock back, and the newcomer gets it.
    holder.release(lock)
    assert newcomer.hear_until(wire.LockOk).lock != lock


def test_settling_ends_without_any_event(start_daemon: StartDaemon) -> None:
    start_daemon().kill()
    daemon = start_daemon("--settle-seconds", "0.1")
    wait_until(lambda: not daemon.status()["settling"], "nobody claims a lock any more")


def test_settling_ends_by_itself_and_a_newcomer_that_fits_then_runs(start_daemon: StartDaemon) -> None:
    start_daemon().kill()
    daemon = start_daemon("--settle-seconds", "3")
    began = time.monotonic()
    with daemon.client().register() as client:
        assert daemon.status()["settling"]
        client.take_lock(GIB)
        assert time.monotonic() - began > 0.2
    assert not daemon.status()["settling"]


def test_a_first_scheduler_does_not_settle(daemon: Daemon) -> None:
    assert not daemon.status()["settling"]


def test_programs_that_ran_unshared_join_and_those_that_do_not_fit_are_asked_to_stop(
    start_daemon: StartDaemon,
) -> None:
    start_daemon().kill()
    daemon = start_daemon("--settle-seconds", "0.5", "--switch-time-mode", "auto")
    claim = entry(state=wire.ClaimState.UNSHARED, swappable=10 * GIB)
    with daemon.client().register(claim) as one, daemon.client().register(claim) as two:
        first, second = one.expect(wire.LockOk), two.expect(wire.LockOk)
        assert first.lock != second.lock
        dropped = two.expect(wire.DropLock)
        assert (dropped.lock, dropped.reason) == (second.lock, wire.DropReason.GROWTH)
        assert one.hear_all() == []


def test_lock_numbers_of_two_schedulers_never_meet(start_daemon: StartDaemon) -> None:
    first = start_daemon()
    before = first.client().register().take_lock()
    assert first.stop() == 0
    second = start_daemon("--settle-seconds", "0")
    after = second.client().register().take_lock()
    assert after >> 32 > before >> 32 > 0


@contextlib.contextmanager
def in_use(place: Path) -> Iterator[None]:
    """As `nvshare run` keeps its scheduler while its program has not come to its first call."""
    users = place / "operator" / "control.sock.users"
    users.parent.mkdir(mode=0o700)
    with users.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def test_an_unused_private_scheduler_ends_by_itself(start_daemon: StartDaemon, tmp_path: Path) -> None:
    with in_use(tmp_path):
        daemon = start_daemon("--exit-when-unused", "1")
        client = daemon.client().register()
    with client:
        client.take_lock()
    assert daemon.process.wait(60) == 0
    daemon.log.wait_end()
    assert "Traceback" not in daemon.log.text


def test_a_used_private_scheduler_does_not_end(start_daemon: StartDaemon, tmp_path: Path) -> None:
    with in_use(tmp_path):
        daemon = start_daemon("--exit-when-unused", "1")
        client = daemon.client().register()
    with client:
        daemon.client().register().close()
        daemon.log.wait_for("Client left")
        with Daemon(tmp_path / "unused", "--exit-when-unused", "1") as unused:
            unused.process.wait(60)
        daemon.assert_alive()


EPOLL_WAITS = {"x86_64": (232, 281), "aarch64": (22, 22)}[platform.machine()]
FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]


def waits_ms(task: Path) -> float:
    """For how long a thread waits unless something happens, by the arguments of its system call; 0 while it runs."""
    number, *arguments = (task / "syscall").read_text().split()
    if number.isdecimal() and int(number) in EPOLL_WAITS:
        left = int(arguments[3], 16) & 0xFFFFFFFF
        return math.inf if left == 0xFFFFFFFF else left
    return math.inf if number == str(FUTEX) and int(arguments[3], 16) == 0 else 0


def test_at_rest_no_thread_of_it_wakes_by_itself_within_three_seconds(daemon: Daemon) -> None:
    with daemon.client().register() as client:
        client.take_lock(GIB)
        daemon.status()
        client.hear_all()
        tasks = Path(f"/proc/{daemon.pid}/task")
        wait_until(lambda: min(map(waits_ms, tasks.iterdir())) > 3000, "it is at rest")
    assert daemon.memory_bytes() <= 45e6


def test_systemd_is_told_when_it_ends(start_daemon: StartDaemon, tmp_path: Path) -> None:
    daemon = start_daemon()
    notices = tmp_path / "notify"
    notices.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
        hears.bind(str(notices))
        hears.settimeout(60)
        daemon.process.send_signal(signal.SIGTERM)
        assert hears.recv(100) == b"STOPPING=1"
    assert daemon.process.wait(60) == 0


def test_a_client_is_told_of_a_schedulers_death_by_the_kernel_alone(daemon: Daemon) -> None:
    with WireClient(daemon.socket).register() as client:
        os.kill(daemon.pid, signal.SIGKILL)
        client.wait_closed()
