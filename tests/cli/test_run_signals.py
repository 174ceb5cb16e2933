"""`nvshare run`: the program finds the signals as its user's shell would leave them."""

import signal
import subprocess
from collections.abc import Callable

import pytest

Front = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("where", [("--private",), ("--sim-gpus", "1"), ("--sim-gpus", "1", "--no-share")])
def test_a_program_ignores_no_signal_that_only_python_ignores(nvshare: Front, where: tuple[str, ...]) -> None:
    done = nvshare("run", *where, "--", "sed", "-n", "s/^SigIgn:\\s*//p", "/proc/self/status")
    assert done.returncode == 0, done.stderr
    ignored = int(done.stdout, 16)
    assert [number.name for number in (signal.SIGPIPE, signal.SIGXFSZ) if ignored >> (number - 1) & 1] == []


def test_a_reader_that_has_ended_ends_the_program_as_in_a_shell(nvshare: Front) -> None:
    words = "yes | head -n 1 > /dev/null; echo ${PIPESTATUS[0]}"
    done = nvshare("run", "--private", "--", "bash", "-c", words)
    assert (done.returncode, done.stdout) == (0, f"{128 + signal.SIGPIPE}\n")
