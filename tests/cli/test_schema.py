"""What programs read: every document follows the schema that `nvsharectl schema` prints."""

import json
from typing import Any

import pytest

from nvshare.wire import messages as wire
from support.client import GIB
from support.daemon import Daemon, call_ctl
from support.json_schema import violations


@pytest.fixture
def schema() -> dict[str, Any]:
    code, text, _ = call_ctl("schema")
    assert code == 0
    return dict(json.loads(text))


def test_status_limits_and_events_follow_the_schema(daemon: Daemon, schema: dict[str, Any]) -> None:
    with daemon.client().register(name=b"big", own_limit=12 * GIB) as big, daemon.client().register() as waits:
        big.take_lock(10 * GIB)
        waits.request(9 * GIB)
        waits.hear_until(wire.WaitForMem)
        status = json.loads(daemon.ctl("status", "-o", "json"))
        assert violations(status, schema, schema) == []
        assert status["schema_version"] == 1
        for limit in json.loads(daemon.ctl("limits", "-o", "json")):
            assert violations(limit, schema["$defs"]["limit"], schema) == []
        lines = [json.loads(line) for line in daemon.ctl("events", "-o", "json").splitlines()]
        assert len(lines) == len(daemon.ctl("events").splitlines())
        for line in lines:
            assert violations(line, schema["$defs"]["event"], schema) == []


def test_sizes_and_durations_have_their_unit_in_the_name(schema: dict[str, Any]) -> None:
    older = {"memory_allocated", "total_memory", "available_memory", "running_memory_usage"}
    for part in schema["$defs"].values():
        for name in part["properties"].keys() - older:
            assert not name.endswith(("_ns", "memory", "limit")), name


def test_events_of_one_client_and_of_the_last_time(daemon: Daemon) -> None:
    with daemon.client().register(name=b"first") as first, daemon.client().register(name=b"second") as second:
        first.take_lock()
        second.take_lock()
        lines = daemon.ctl("events", "--client", "first").splitlines()
        assert len(lines) == 2
        assert all(first.name in line for line in lines)
        assert daemon.ctl("events", "--since", "1h") == daemon.ctl("events")
        assert daemon.ctl("events", "--since", "0s") == ""
        chosen = daemon.ctl("events", "-o", "json", "--since", "1h", "--client", "first", "-n", "1").splitlines()
        assert [json.loads(line)["text"].partition(" on ")[0] for line in chosen] == [
            f"Lock given to client first ({first.name})"
        ]
        assert daemon.ctl("events", "-o", "json", "--since", "0s", "--client", "first") == ""
        assert "no client 'nobody'" in daemon.ctl("events", "--client", "nobody", code=1)
        assert "is not a duration" in daemon.ctl("events", "--since", "soon", code=2)
