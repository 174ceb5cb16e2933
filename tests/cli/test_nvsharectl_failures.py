"""nvsharectl when something is wrong: its exit code and its one line; and what it does without a scheduler."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon import Daemon, call_ctl, clean_environment, run_ctl

# Refusals and mistakes.

REFUSED = {
    "no such client": ["story", "ffff"],
    "not an id": ["story", "nobody\x1b[31m"],
    "a name that is not UTF-8": ["story", "\udcff"],
    "nobody to limit": ["limit", "default/nobody", "1Gi"],
    "no such GPU for a quantum": ["set-tq", "5", "--gpu", "GPU-0"],
    "no such GPU for a mode": ["set-mode", "auto", "--gpu", "GPU-0"],
}


@pytest.fixture(scope="module")
def quiet_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One that the tests below do not change."""
    with Daemon(tmp_path_factory.mktemp("q")) as made:
        yield made


def failure(path: str, words: list[str]) -> tuple[int, str]:
    """The exit code and the line."""
    code, out, err = call_ctl("--socket", path, *words)
    assert out == ""
    return code, one_line(err)


def one_line(text: str) -> str:
    assert text.startswith("nvsharectl: ")
    assert text.endswith("\n")
    line = text.removesuffix("\n")
    assert line.isprintable(), text
    return line


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_is_exit_code_1_and_a_line(quiet_daemon: Daemon, words: list[str]) -> None:
    assert failure(quiet_daemon.operator_socket, words)[0] == 1


WRONG = {
    "an unknown command": ["frobnicate"],
    "an unknown flag": ["status", "--frob"],
    "an unknown form": ["status", "-o", "xml"],
    "a quantum of 0": ["set-tq", "0"],
    "a quantum of -1": ["set-tq", "--", "-1"],
    "a quantum in words": ["set-tq", "long"],
    "no quantum": ["set-tq"],
    "a quantum beyond a day": ["-T", "100000"],
    "neither on nor off": ["anti-thrash", "maybe"],
    "no state": ["anti-thrash"],
    "an unknown mode": ["set-mode", "magic"],
    "a size that is none": ["limit", "x", "8GB"],
    "a negative size": ["limit", "x", "--", "-8Gi"],
    "neither size nor clear": ["limit", "x"],
    "both size and clear": ["limit", "x", "1Gi", "--clear"],
    "both none and clear": ["limit", "x", "none", "--clear"],
    "a limit of nobody": ["limit"],
    "no client": ["story"],
    "a negative count": ["events", "-n", "-1"],
    "an unknown shell": ["completion", "tcsh"],
    "a time-out of nothing": ["--timeout", "0", "status"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_exit_code_2_and_a_line(quiet_daemon: Daemon, words: list[str]) -> None:
    code, line = failure(quiet_daemon.operator_socket, words)
    assert code == 2
    assert "--help" in line


def test_no_scheduler_is_exit_code_3_and_what_to_do(tmp_path: Path) -> None:
    done = run_ctl("--socket", str(tmp_path / "none.sock"), "status")
    assert done.returncode == 3
    assert "start nvshare-scheduler" in one_line(done.stderr)


def test_a_dead_scheduler_is_exit_code_3(daemon: Daemon) -> None:
    daemon.kill()
    assert "start nvshare-scheduler" in one_line(daemon.ctl("status", code=3))


def test_a_path_too_long_is_exit_code_3() -> None:
    assert failure("/" + "x" * 300, ["status"])[0] == 3


OTHER_VERSIONS = {
    "an answer of a kind that we do not know": b'{"answer":"picture","png":""}\n',
    "an answer that lacks a field": b'{"answer":"status","version":"9"}\n',
    "an answer to another question": b'{"answer":"done"}\n',
    "no JSON": b"hello\n",
    "no UTF-8": b"\xff\xfe\n",
    "nothing": b"",
}


@pytest.mark.parametrize("said", OTHER_VERSIONS.values(), ids=OTHER_VERSIONS.keys())
def test_an_answer_that_is_not_understood_is_exit_code_3(tmp_path: Path, said: bytes) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def answer() -> None:
            with listening.accept()[0] as peer:
                peer.recv(100)
                peer.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        code, line = failure(path, ["status"])
        thread.join()
    assert code == 3
    assert ("another version" if said else "see its log") in line


def test_a_stopped_scheduler_is_exit_code_3_in_bounded_time(daemon: Daemon) -> None:
    daemon.process.send_signal(signal.SIGSTOP)
    done = daemon.run_ctl("--timeout", "1", "status")
    assert done.returncode == 3
    assert "does not answer; is it stopped?" in one_line(done.stderr)
    daemon.process.send_signal(signal.SIGCONT)
    daemon.ctl("status")


def test_an_answer_that_never_ends_is_exit_code_3_in_bounded_time(tmp_path: Path) -> None:
    path, is_over = str(tmp_path / "s"), threading.Event()

    def drip() -> None:
        with listening.accept()[0] as peer, contextlib.suppress(BrokenPipeError):
            while not is_over.wait(0.05):
                peer.sendall(b"{")

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        thread = threading.Thread(target=drip)
        thread.start()
        code, line = failure(path, ["--timeout", "1", "status"])
        is_over.set()
        thread.join()
    assert code == 3
    assert "does not answer; is it stopped?" in line


def test_the_socket_can_be_named_in_the_environment(daemon: Daemon) -> None:
    done = run_ctl("status", NVSHARE_OPERATOR_SOCKET=daemon.operator_socket)
    assert done.returncode == 0
    assert done.stdout.startswith("nvshare ")


def test_a_reader_who_stops_reading_is_no_error(quiet_daemon: Daemon) -> None:
    done = subprocess.run(
        f"'{sys.executable}' -m nvshare.cli.ctl.nvsharectl completion bash | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        env=clean_environment(NVSHARE_OPERATOR_SOCKET=quiet_daemon.operator_socket),
    )
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str) -> None:
    code, text, _ = call_ctl("completion", shell)
    assert code == 0
    assert "nvsharectl" in text


def test_help_lists_every_command() -> None:
    code, text, _ = call_ctl("--help")
    assert code == 0
    for word in (
        "status",
        "set-tq",
        "set-mode",
        "anti-thrash",
        "limit",
        "limits",
        "events",
        "story",
        "completion",
        "Exit codes",
    ):
        assert word in text
    assert call_ctl()[1] == text
    assert call_ctl("--version")[1].startswith("nvsharectl")
