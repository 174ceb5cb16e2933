"""The log: lines as operators know them or as JSON, few enough to be read, never in the way."""

import contextlib
import errno
import io
import json
import os
import re
import signal
import time
from pathlib import Path

import msgspec
import pytest

from nvshare.core.actions import AnnounceRoom, GiveLock, ReportForgotten, UpdateLimit
from nvshare.core.events import LimitSet, LockRequested
from nvshare.core.limits.group_order import NO_ORDER, Order
from nvshare.core.model import NO_MEMORY
from nvshare.journal import Step
from nvshare.scheduler.observe import log as log_module
from nvshare.scheduler.observe.log import MAX_LINES_A_SECOND, Log
from nvshare.wire import messages as wire
from support.client import GIB, gpu_name
from support.fixtures import StartDaemon


class FullDisk(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def step(client: int = 0x6CCB) -> Step:
    return Step(1, 1.5, LockRequested(client, "GPU-1", NO_MEMORY), (GiveLock(client, "GPU-1", 1, False),))


def log_of(**settings: object) -> Log:
    log = Log()
    log.stream = io.StringIO()
    for name, value in settings.items():
        setattr(log, name, value)
    return log


def lines(log: Log) -> list[str]:
    assert isinstance(log.stream, io.StringIO)
    return log.stream.getvalue().splitlines()


def test_a_step_is_a_line() -> None:
    log = log_of()
    log.observe(step())
    assert lines(log) == ["[NVSHARE][INFO]: Lock given to client 6ccb on GPU-1"]


FORGOTTEN = {
    "too many groups": (
        ReportForgotten("run/1", "run 1", 4 * GIB, NO_ORDER, is_expected=True),
        "run 1 are forgotten (too many groups without a client): memory limit 4.00 GiB",
    ),
    "a pod that Kubernetes removed": (
        ReportForgotten("pod/p", "team/p", 0, Order(300, -3, is_paused=True, core_limit=30), is_expected=False),
        "pod team/p are forgotten (none of its clients is left): memory limit none, weight 300, priority -3, "
        "core limit 30 %, pause",
    ),
    "a process": (
        ReportForgotten("process/7-42", "process 7", None, Order(is_paused=True), is_expected=False),
        "process 7 are forgotten (none of its clients is left): pause",
    ),
}


@pytest.mark.parametrize(("action", "text"), FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_forgotten_orders_are_a_line(action: ReportForgotten, text: str) -> None:
    log = log_of()
    log.observe(Step(1, 1.5, LimitSet("run/2", None), (action,)))
    assert lines(log) == [f"[NVSHARE][INFO]: The operator's orders for {text}"]


def test_room_is_a_line_of_its_own_only_if_the_lock_comes_later() -> None:
    room = AnnounceRoom(0x6CCB, "GPU-1")
    given = step()
    log = log_of()
    log.observe(msgspec.structs.replace(given, actions=(room, *given.actions)))
    log.observe(msgspec.structs.replace(given, actions=(room,)))
    assert lines(log) == [
        "[NVSHARE][INFO]: Lock given to client 6ccb on GPU-1",
        "[NVSHARE][INFO]: There is room for client 6ccb on GPU-1: its lock follows",
    ]


def test_a_limit_that_is_removed_is_called_so() -> None:
    log = log_of()
    sent = (UpdateLimit(0x6CCB, "GPU-1", 2 * GIB), UpdateLimit(0x6CCB, "GPU-1", 0))
    log.observe(msgspec.structs.replace(step(), actions=sent))
    assert lines(log) == [
        "[NVSHARE][INFO]: Sending UPDATE_LIMIT to client 6ccb: 2147483648 bytes (2.00 GiB)",
        "[NVSHARE][INFO]: Sending UPDATE_LIMIT to client 6ccb: 0 bytes (limit removed)",
    ]


def test_lines_in_a_file_begin_with_the_time(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        log_of(stream=file).info("something")
    line = (tmp_path / "log").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} \[NVSHARE\]\[INFO\]: something\n", line)


def test_above_fifty_lines_a_second_the_rest_is_a_summary() -> None:
    log = log_of()
    for _ in range(1000):
        log.observe(step())
    log.flush_summary()
    said = lines(log)
    # The machine's second may have turned on the way, and with it the ration.
    assert MAX_LINES_A_SECOND < len(said) <= 3 * MAX_LINES_A_SECOND
    left_out = sum(int(line.split()[-2]) for line in said if "In the last second also: " in line)
    assert left_out + sum("Lock given" in line for line in said) == 1000


def test_a_step_that_is_left_out_is_not_put_into_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    described: list[Step] = []

    def describe(step: Step) -> list[str]:
        described.append(step)
        return ["one", "two"]

    monkeypatch.setattr(log_module, "describe", describe)
    log = log_of()
    for _ in range(1000):
        log.observe(step())
    log.flush_summary()
    assert len(described) == MAX_LINES_A_SECOND // 2
    assert lines(log)[-1].endswith(f"also: {1000 - len(described)} steps")


def test_a_step_of_many_lines_has_no_more_of_them_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    monkeypatch.setattr(log_module, "describe", lambda step: ["line"] * 1000)
    log = log_of()
    log.observe(step())
    log.flush_summary()
    assert lines(log)[MAX_LINES_A_SECOND:] == ["[NVSHARE][INFO]: In the last second also: 1 steps"]


def test_the_summary_comes_even_if_nothing_follows() -> None:
    later = []
    log = log_of(call_later=lambda delay, call: later.append((delay, call)))
    for _ in range(1000):
        log.observe(step())
    assert later
    assert later[0][0] == 1
    later[-1][1]()
    assert "steps" in lines(log)[-1]


def test_complaints_do_not_use_up_the_lines_of_steps() -> None:
    log = log_of()
    for _ in range(1000):
        log.complain("somebody misbehaves")
    log.observe(step())
    assert any("Lock given" in line for line in lines(log))


def test_steps_are_left_out_above_info_and_warnings_are_not() -> None:
    log = log_of(level="warning")
    log.observe(step())
    log.info("hello")
    log.complain("somebody misbehaves")
    assert lines(log) == ["[NVSHARE][WARNING]: somebody misbehaves"]


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    log = log_of(stream=FullDisk())
    log.error("nobody hears this")
    log.observe(step())
    assert lines(log)


def test_a_path_and_a_node_that_are_not_utf8_are_told_as_json(start_daemon: StartDaemon, tmp_path: Path) -> None:
    path = f"{tmp_path}/\udcff/s.sock"
    daemon = start_daemon("--log-format", "json", "--socket", path, "--node-name", "n\udcff")
    assert daemon.status()["host"] == "n?"
    assert daemon.stop() == 0
    messages = [json.loads(line)["message"] for line in daemon.log.lines]
    assert f"nvshare-scheduler listens at {tmp_path}/\\udcff/s.sock" in messages


def test_json_lines_parse_and_name_the_clients(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("--log-format", "json")
    with daemon.client().register(name=b'"quoted"\n') as client:
        client.take_lock(GIB)
        with daemon.client() as peer:
            peer.send_bytes(b"nonsense")
            peer.wait_closed()
    assert daemon.stop() == 0
    records = [json.loads(line) for line in daemon.log.lines]
    assert all({"time", "level", "message"} <= record.keys() for record in records)
    (given,) = [record for record in records if record["message"].startswith("Lock given")]
    assert given["message"] == f"Lock given to client {client.name} on {gpu_name(0)}"
    assert (given["level"], given["clients"]) == ("info", [client.name])
    assert [record["level"] for record in records if "Closing" in record["message"]] == ["warning"]


def test_a_busy_scheduler_summarises(start_daemon: StartDaemon) -> None:
    """All requests are there when it begins to read, so that at least half of them are served in one second."""
    daemon = start_daemon()
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.client().register()) for _ in range(3 * MAX_LINES_A_SECOND)]
        daemon.process.send_signal(signal.SIGSTOP)
        for client in clients:
            client.request()
        daemon.process.send_signal(signal.SIGCONT)
        daemon.log.wait_for(r"In the last second also: \d+ steps")
        for client in clients:
            client.hear_until(wire.LockOk)
    assert daemon.log.count("Lock given") < len(clients)


def test_registration_is_told_as_operators_know_it(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    with daemon.client().register(name=b"train.py") as client:
        line = daemon.log.wait_for("Client registered")
    pid = os.getpid()
    assert line == f"[NVSHARE][INFO]: Client registered: {client.name} (process {pid}, pid {pid}, train.py)"
