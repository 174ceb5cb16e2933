"""Commands that go on for a while, in a terminal, on one that cannot move the cursor, and in a pipe."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nvshare.cli.doctor.progress import Progress
from support.daemon import Daemon, clean_environment
from support.interrupts import sigint_is_not_ignored as sigint_is_not_ignored
from support.terminal import Terminal

CTL = (sys.executable, "-m", "nvshare.cli.ctl.nvsharectl", "--socket")
DOCTOR = (sys.executable, "-m", "nvshare.cli.nvshare", "doctor")


@pytest.fixture
def stopped(daemon: Daemon) -> Iterator[Daemon]:
    """A scheduler that does not answer, until somebody continues it."""
    daemon.process.send_signal(signal.SIGSTOP)
    yield daemon
    daemon.process.send_signal(signal.SIGCONT)


def named(daemon: Daemon) -> dict[str, str]:
    return {"NVSHARE_SOCKET": daemon.socket, "NVSHARE_OPERATOR_SOCKET": daemon.operator_socket}


def test_watch_shows_the_status_again_until_it_is_interrupted(daemon: Daemon) -> None:
    terminal = Terminal(*CTL, daemon.operator_socket, "status", "--watch")
    terminal.read_until("No clients")
    with daemon.client().register(name=b"newcomer"):
        assert "No clients" not in terminal.read_until("newcomer").rpartition("nvshare ")[2]
    terminal.interrupt()
    assert terminal.end() == 130
    assert terminal.raw.count("\x1b[2J") >= 2, "each replaces the one before"


def test_watch_on_a_terminal_that_cannot_move_the_cursor_prints_one_status_below_the_other(daemon: Daemon) -> None:
    terminal = Terminal(*CTL, daemon.operator_socket, "status", "-w", TERM="dumb")
    terminal.read_until("No clients")
    terminal.read_until("No clients")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "\x1b" not in terminal.raw


def test_watch_in_a_pipe_is_one_document_after_the_other(daemon: Daemon) -> None:
    words = [*CTL, daemon.operator_socket, "status", "-w", "-o", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=clean_environment()) as process:
        assert process.stdout is not None
        decoder, text = json.JSONDecoder(), ""
        times: list[float] = []
        while len(times) < 2:
            text += os.read(process.stdout.fileno(), 65536).decode()
            try:
                document, end = decoder.raw_decode(text.lstrip())
            except json.JSONDecodeError:
                continue
            times.append(document["time"])
            text = text.lstrip()[end:]
        process.send_signal(signal.SIGINT)
    assert times[0] < times[1]


def test_doctor_names_on_a_terminal_what_takes_long(stopped: Daemon) -> None:
    terminal = Terminal(*DOCTOR, columns=110, lines=30, **named(stopped))
    terminal.read_until("checking the scheduler")
    stopped.process.send_signal(signal.SIGCONT)
    terminal.read_until(r"\d+ failed|no problems found")
    terminal.end()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_doctor_names_in_a_pipe_what_takes_long(stopped: Daemon, options: tuple[str, ...]) -> None:
    words, pipe = [*DOCTOR, *options], subprocess.PIPE
    with subprocess.Popen(
        words, stdout=pipe, stderr=pipe, text=True, env=clean_environment(**named(stopped))
    ) as doctor:
        assert doctor.stderr is not None
        for line in doctor.stderr:
            if line == "checking the scheduler ...\n":
                break
        else:
            pytest.fail("it was silent")
        stopped.process.send_signal(signal.SIGCONT)
        said, _ = doctor.communicate(timeout=60)
    assert "a scheduler listens at" in said
    if options:
        assert json.loads(said)["schema_version"] == 1


def test_a_check_that_ends_soon_has_no_line_in_a_pipe() -> None:
    said = io.StringIO()
    progress = Progress(said, patience_s=3600)
    progress.show("checking the driver ...")
    progress.show("checking the library ...")
    progress.end()
    assert said.getvalue() == ""
