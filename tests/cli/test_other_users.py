"""A private scheduler cannot take turns with other users' programs: the user is told."""

import os
import subprocess
from collections.abc import Iterator
from typing import Self

import pytest

from nvshare.cli.run import other_users
from nvshare.inventory.gpus import Gpu, Sample
from nvshare.inventory.nvml import NvmlUnavailableError


class FakeNvml:
    """One GPU with the given processes on it."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def discover(self) -> tuple[Gpu, ...]:
        return (Gpu("GPU-0", 1 << 34, 0, "card"),)

    def sample(self, uuid: str) -> Sample:
        return Sample(dict.fromkeys(self._pids, 1 << 30), 1 << 30, 1 << 34)


@pytest.fixture
def stranger() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"], user=65534 if os.geteuid() == 0 else None) as process:
        yield process.pid
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's program")
def test_another_users_program_on_the_gpu_is_named(
    stranger: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(other_users, "Nvml", lambda: FakeNvml([stranger, os.getpid(), 2**22 + 1]))
    other_users.warn_of_strangers()
    said = capsys.readouterr().err
    assert f"sleep (pid {stranger}, user nobody)" in said
    assert said.count("\n") == 1
    assert str(os.getpid()) not in said


RENAMED = "import sys; open('/proc/self/comm', 'wb').write(b'\\xff\\x1b[31m'); print(flush=True); sys.stdin.read()"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's program")
def test_a_name_that_is_not_utf8_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["/usr/bin/python3", "-c", RENAMED]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=65534) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        monkeypatch.setattr(other_users, "Nvml", lambda: FakeNvml([process.pid]))
        other_users.warn_of_strangers()
        assert process.stdin is not None
        process.stdin.close()
    assert f"\ufffd?[31m (pid {process.pid}, user nobody)" in capsys.readouterr().err


def test_nothing_is_said_of_ones_own_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(other_users, "Nvml", lambda: FakeNvml([os.getpid()]))
    other_users.warn_of_strangers()
    assert capsys.readouterr().err == ""


def test_nothing_is_said_without_nvml(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def unavailable() -> FakeNvml:
        raise NvmlUnavailableError("no driver")

    monkeypatch.setattr(other_users, "Nvml", unavailable)
    other_users.warn_of_strangers()
    assert capsys.readouterr().err == ""
