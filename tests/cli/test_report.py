"""nvsharectl report, asked of a real scheduler."""

import csv
import io
import json
from pathlib import Path

import pytest

from nvshare import admin
from nvshare.cli.ctl.report import _as_json, _as_table
from nvshare.status_document import schema
from nvshare.wire import messages as wire
from support.client import GIB
from support.daemon import Daemon
from support.json_schema import violations


def test_a_program_that_has_ended_is_in_the_report_of_the_next_scheduler(tmp_path: Path) -> None:
    first = Daemon(tmp_path)
    with first.client().register(name=b"trainer") as client:
        lock = client.take_lock(2 * GIB)
        client.release(lock, again=False)
    first.stop()
    second = Daemon(tmp_path)
    try:
        made = json.loads(second.ctl("report", "--by", "name", "-o", "json"))
        assert violations(made, schema()["$defs"]["report"], schema()) == []
        (row,) = made["rows"]
        assert (row["key"], row["switches"]) == ("trainer", 1)
        assert row["held_seconds"] > 0
        assert 0 <= row["gpu_seconds"] <= row["held_seconds"] + 0.001
        assert row["memory_byte_seconds"] > 0
        assert row["gpu_percent"] == pytest.approx(100 * row["gpu_seconds"] / (made["end"] - made["begin"]))
    finally:
        second.stop()


def test_the_table_and_the_csv_have_a_row_for_each_program(daemon: Daemon) -> None:
    with daemon.client().register(name=b"first") as first, daemon.client().register(name=b"=second()") as second:
        first.take_lock(10 * GIB)
        second.request(10 * GIB)
        second.expect(wire.WaitForMem)
        table = daemon.ctl("report", "--by", "name").splitlines()
        assert table[0].startswith("Since ")
        assert table[1].split() == ["NAME", "BUSY", "UTIL", "HELD", "MEMORY", "WAITING", "SWITCHES", "IN", "OUT"]
        assert [line.split()[0] for line in table[2:]] == ["first", "=second()"]
        rows = list(csv.DictReader(io.StringIO(daemon.ctl("report", "--by", "name", "-o", "csv"))))
        assert [(row["name"], row["switches"]) for row in rows] == [("first", "1"), ("'=second()", "0")]
        assert float(rows[1]["waiting_seconds"]) > 0
        assert list(rows[0])[-2:] == ["gpu_seconds", "gpu_percent"]


def row_of(busy_s: float, percent: float) -> admin.ReportRow:
    return admin.ReportRow("1000", "a-user", 3600.0, float(GIB), 1800.0, 1234, 5 * GIB, 5 * GIB, busy_s, percent)


def test_the_utilisation_is_beside_the_busy_time_also_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nvshare.cli.ctl.report.terminal_width", lambda: 80)
    answer = admin.Report(0.0, 3600.0, "pod", (row_of(900.0, 25.0), row_of(7200.0, 200.0)))
    _, head, *rows = _as_table(answer).splitlines()
    assert head.split()[:4] == ["WHO", "BUSY", "UTIL", "HELD"]
    assert [row.split()[1:3] for row in rows] == [["900", "25%"], ["7200", "200%"]]
    assert max(map(len, (head, *rows))) <= 80


@pytest.mark.parametrize("by", ["user", "pod", "gpu"])
def test_it_can_be_asked_by_user_pod_and_gpu(daemon: Daemon, by: str) -> None:
    assert "Nothing was used." in daemon.ctl("report", "--by", by, "--since", "1h")
    with daemon.client().register(name=b"trainer") as client:
        client.take_lock(GIB)
        assert len(daemon.ctl("report", "--by", by).splitlines()) == 3


def test_a_report_by_something_else_is_wrong_usage(daemon: Daemon) -> None:
    daemon.ctl("report", "--by", "colour", code=2)
    daemon.ctl("report", "--since", "yesterday", code=2)


def test_rows_that_are_left_out_are_counted() -> None:
    answer = admin.Report(0.0, 3600.0, "pod", (row_of(900.0, 25.0),), left_out=7)
    assert _as_table(answer).endswith("\n7 more held less and are left out.")
    assert json.loads(_as_json(answer))["left_out"] == 7
