"""nvsharectl report, asked of a real scheduler."""

import csv
import io
import json
from pathlib import Path

import pytest

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
    finally:
        second.stop()


def test_the_table_and_the_csv_have_a_row_for_each_program(daemon: Daemon) -> None:
    with daemon.client().register(name=b"first") as first, daemon.client().register(name=b"=second()") as second:
        first.take_lock(10 * GIB)
        second.request(10 * GIB)
        second.expect(wire.WaitForMem)
        table = daemon.ctl("report", "--by", "name").splitlines()
        assert table[0].startswith("Since ")
        assert table[1].split() == ["NAME", "BUSY", "HELD", "MEMORY", "WAITING", "SWITCHES", "IN", "OUT"]
        assert [line.split()[0] for line in table[2:]] == ["first", "=second()"]
        rows = list(csv.DictReader(io.StringIO(daemon.ctl("report", "--by", "name", "-o", "csv"))))
        assert [(row["name"], row["switches"]) for row in rows] == [("first", "1"), ("'=second()", "0")]
        assert float(rows[1]["waiting_seconds"]) > 0
        assert list(rows[0])[-1] == "gpu_seconds"


@pytest.mark.parametrize("by", ["user", "pod", "gpu"])
def test_it_can_be_asked_by_user_pod_and_gpu(daemon: Daemon, by: str) -> None:
    assert "Nothing was used." in daemon.ctl("report", "--by", by, "--since", "1h")
    with daemon.client().register(name=b"trainer") as client:
        client.take_lock(GIB)
        assert len(daemon.ctl("report", "--by", by).splitlines()) == 3


def test_a_report_by_something_else_is_wrong_usage(daemon: Daemon) -> None:
    daemon.ctl("report", "--by", "colour", code=2)
    daemon.ctl("report", "--since", "yesterday", code=2)
