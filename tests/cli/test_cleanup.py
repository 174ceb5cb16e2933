"""Directories of simulated cards and their schedulers go when nobody uses them any more, and not before."""

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nvshare.cli.run import private_scheduler
from nvshare.cli.run.cleanup import entering, occupy, sweep
from nvshare.simgpu.config import SimGpu
from support.waiting import wait_until

Front = Callable[..., subprocess.CompletedProcess[str]]
ALLOCATOR = Path(__file__).resolve().parents[2] / "src" / "nvshare" / "_native" / "demo" / "allocator"


def left(folder: Path) -> list[str]:
    """Our directories there, without the numbers in their names."""
    return sorted(path.name.partition("-")[0] for path in folder.iterdir() if "-" in path.name)


def make(folder: Path, name: str) -> Path:
    (folder / name / "operator").mkdir(parents=True)
    (folder / name / "operator" / "control.sock.lock").touch()
    return folder / name


def test_the_last_program_on_a_simulated_card_takes_everything_with_it(nvshare: Front, runtime: Path) -> None:
    seen = nvshare("run", "--sim-gpus", "1", "--", "ls", str(runtime / "nvshare")).stdout.split()
    assert [name.partition("-")[0] for name in seen if "-" in name] == ["on", "sim"]
    wait_until(lambda: left(runtime / "nvshare") == [], "nothing is left")


def test_what_a_program_without_a_scheduler_left_goes_at_the_next_start(nvshare: Front, runtime: Path) -> None:
    assert nvshare("run", "--sim-gpus", "1", "--no-share", "--", "true").returncode == 0
    assert left(runtime / "nvshare") == ["sim"]
    seen = nvshare("run", "--sim-gpus", "2", "--no-share", "--", "ls", str(runtime / "nvshare")).stdout.split()
    assert len([name for name in seen if name.startswith("sim-")]) == 1


def test_a_directory_in_which_nothing_is_locked_is_removed(tmp_path: Path) -> None:
    for name in ("on-0123abcd", "sim-0123abcd", "demo-ab_d0123"):
        make(tmp_path, name)
    sweep(tmp_path)
    assert left(tmp_path) == []


def test_a_lock_deep_inside_keeps_a_directory_until_it_is_released(tmp_path: Path) -> None:
    used = make(tmp_path, "on-0123abcd")
    with (used / "operator" / "control.sock.lock").open() as lease:
        fcntl.flock(lease, fcntl.LOCK_SH)
        sweep(tmp_path)
        assert used.exists()
    sweep(tmp_path)
    assert not used.exists()


def test_an_inherited_descriptor_keeps_a_directory_as_long_as_the_program_lives(tmp_path: Path) -> None:
    used = make(tmp_path, "sim-0123abcd")
    descriptor = occupy(used)
    with subprocess.Popen(["sh", "-c", "read line"], stdin=subprocess.PIPE, pass_fds=[descriptor]) as program:
        os.close(descriptor)
        sweep(tmp_path)
        assert used.exists()
        program.communicate(b"\n")
    sweep(tmp_path)
    assert not used.exists()


def test_a_program_on_the_card_keeps_it_by_the_simulated_drivers_own_lock(tmp_path: Path) -> None:
    card = make(tmp_path, "sim-0123abcd")
    environment = SimGpu().with_values(directory=card).environment()
    with subprocess.Popen([ALLOCATOR], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        sweep(tmp_path)
        assert card.exists()
        program.communicate(b"")
    sweep(tmp_path)
    assert not card.exists()


def test_while_somebody_is_entering_nothing_is_removed(tmp_path: Path) -> None:
    with entering(tmp_path):
        made = make(tmp_path, "on-0123abcd")
        sweep(tmp_path)
        assert made.exists()
    sweep(tmp_path)
    assert not made.exists()


def test_a_trace_that_somebody_asked_for_is_kept(tmp_path: Path) -> None:
    (make(tmp_path, "sim-0123abcd") / "trace").mkdir()
    sweep(tmp_path)
    assert left(tmp_path) == ["sim"]


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    for name in ("on-mine", "clients", "sim-0123abcdef", "elsewhere"):
        make(tmp_path, name)
    (tmp_path / "on-0123abcd").symlink_to("elsewhere")
    before = sorted(tmp_path.rglob("*"))
    sweep(tmp_path)
    assert set(before) <= set(tmp_path.rglob("*"))


def test_programs_that_start_while_others_sweep_lose_nothing(environment: dict[str, str], runtime: Path) -> None:
    (runtime / "nvshare").mkdir(mode=0o700)
    is_over = threading.Event()

    def sweep_on() -> None:
        while not is_over.is_set():
            sweep(runtime / "nvshare")

    words = [sys.executable, "-m", "nvshare.cli.nvshare", "run", "--sim-gpus", "1", "--", str(ALLOCATOR)]
    with ThreadPoolExecutor(1) as thread:
        sweeping = thread.submit(sweep_on)
        try:
            programs = [
                subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for _ in range(4)
            ]
            said = [program.communicate("alloc 1Gi\n", timeout=60)[0].splitlines() for program in programs]
        finally:
            is_over.set()
        sweeping.result()
    assert said == [["ready", "ok"]] * 4
    wait_until(lambda: left(runtime / "nvshare") == [], "nothing is left")


def test_without_a_shell_the_scheduler_starts_all_the_same(
    tmp_path: Path, runtime: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr(private_scheduler, "_SHELL", str(tmp_path / "no-shell"))
    place = private_scheduler.SchedulerPaths(str(runtime / "p"))
    descriptor = private_scheduler.join(place, environment)
    assert private_scheduler.is_answering(place.socket)
    private_scheduler.leave(place, descriptor)
    assert not private_scheduler.is_answering(place.socket)
