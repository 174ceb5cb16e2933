"""What the commands say if their output cannot be written, or if they are interrupted while they start."""

import signal
import subprocess
import sys

import pytest

from support.daemon import Daemon, clean_environment

MODULES = {"nvshare": "nvshare.cli.nvshare", "nvsharectl": "nvshare.cli.ctl.nvsharectl"}
COMMANDS = {
    "status": ("nvsharectl", "status"),
    "top": ("nvsharectl", "top", "-n", "1"),
    "ps": ("nvshare", "ps", "-o", "json"),
    "help": ("nvshare", "--help"),
    "kubectl": ("kubectl nvshare", "--help"),
}


def run(daemon: Daemon, program: str, words: tuple[str, ...], redirection: str) -> "subprocess.CompletedProcess[str]":
    module = MODULES.get(program, "nvshare.cli.ctl.kubectl_nvshare")
    line = f'exec "$0" -m {module} {" ".join(words)} {redirection}'
    environment = clean_environment(NVSHARE_OPERATOR_SOCKET=daemon.operator_socket)
    return subprocess.run(
        ["sh", "-c", line, sys.executable], env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("redirection", "reason"), [("> /dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
@pytest.mark.parametrize("name", COMMANDS)
def test_an_output_that_cannot_be_written_is_one_line(daemon: Daemon, name: str, redirection: str, reason: str) -> None:
    program, *words = COMMANDS[name]
    done = run(daemon, program, tuple(words), redirection)
    assert (done.returncode, done.stderr) == (1, f"{program}: cannot write the output: {reason}\n")


def test_closed_input_and_closed_standard_error_change_nothing(daemon: Daemon) -> None:
    done = run(daemon, "nvsharectl", ("top", "-n", "1"), "<&-")
    assert (done.returncode, done.stdout.endswith("no clients\n"), done.stderr) == (0, True, "")
    assert run(daemon, "nvsharectl", ("status", "-o", "xml"), "2>&-").returncode == 2


def test_a_program_finds_closed_what_was_closed(daemon: Daemon) -> None:
    words = ("run", "--no-share", "--sim-gpus", "1", "--", "sh", "-c", "'test ! -e /proc/self/fd/1'")
    assert run(daemon, "nvshare", words, ">&-").returncode == 0


@pytest.mark.parametrize("script", ["nvshare", "nvsharectl", "kubectl_nvshare"])
def test_an_interrupt_during_the_start_ends_it_without_a_traceback(script: str) -> None:
    program = f"""
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from nvshare.cli.entry import {script}
{script}()
"""
    words = [sys.executable, "-c", program, "--help"]
    done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
