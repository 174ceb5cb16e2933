"""nvsharectl against a real scheduler: every command, and what programs and people read."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml

from nvshare.wire import messages as wire
from support.client import GIB, WireClient, entry, gpu_name
from support.daemon import Daemon, clean_environment
from support.fixtures import StartDaemon
from support.log import LogReader
from support.waiting import wait_until

GPU = gpu_name(0)
SHORT = GPU[:12]
CHANGING = ("time", "_seconds", "gpu_percent", "busy_percent", "utilization_percent", "accounted_percent")


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    return start_daemon()


@pytest.fixture
def two(daemon: Daemon) -> Iterator[tuple[WireClient, WireClient]]:
    """One client that runs and one that waits for it."""
    with (
        daemon.client().register(name=b"big") as runs,
        daemon.client().register(entry(0), entry(1), name=b"small") as waits,
    ):
        runs.take_lock(10 * GIB)
        waits.request(8 * GIB)
        waits.expect(wire.WaitForMem)
        yield runs, waits


# Looking.


def test_status_shows_who_runs_and_who_waits(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    text = daemon.ctl("status")
    (row,) = [line for line in text.splitlines() if line.startswith(runs.name)]
    assert re.search(r"running +\d.* 10.00Gi", row)
    row, other = [line for line in text.splitlines() if line.startswith(waits.name)]
    assert re.search(r"waiting 1 .* 8.00Gi", row)
    assert "idle" in other
    assert GPU in text
    wide = daemon.ctl("status", "-o", "wide")
    assert "PID" in wide
    assert max(map(len, wide.splitlines())) > max(map(len, text.splitlines()))


def test_status_as_json_has_the_documented_fields(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    status = json.loads(daemon.ctl("status", "-o", "json"))
    gpu, other = status["gpus"]
    assert (gpu["uuid"], gpu["total_memory"], gpu["running_memory_usage"]) == (GPU, 16 * GIB, 10 * GIB)
    assert gpu["available_memory"] == gpu["safe_limit_bytes"] - 10 * GIB == 16 * GIB * 9 // 10 - 10 * GIB
    assert (gpu["running"], gpu["waiting"], other["running"], other["waiting"]) == (1, 1, 0, 0)
    first, second = gpu["clients"]
    assert (first["id"], first["is_running"], first["memory_allocated"]) == (runs.name, True, 10 * GIB)
    assert (second["id"], second["is_running"], second["memory_allocated"]) == (waits.name, False, 8 * GIB)
    assert status["time"] - 60 < first["last_scheduled_time"] <= status["time"]
    assert second["last_scheduled_time"] is None
    assert (second["state"], second["place"]) == ("waiting", 1)
    assert status["started"] <= status["time"]


def test_status_as_yaml_says_the_same_as_json(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    assert two
    by_json = json.loads(daemon.ctl("status", "-o", "json"))
    by_yaml = yaml.safe_load(daemon.ctl("status", "-o", "yaml"))

    def without_time(value: object) -> object:
        if isinstance(value, dict):
            return {key: without_time(item) for key, item in value.items() if not key.endswith(CHANGING)}
        return [without_time(item) for item in value] if isinstance(value, list) else value

    assert without_time(by_yaml) == without_time(by_json)
    assert (by_yaml["gpus"][0].keys(), type(by_yaml["time"])) == (by_json["gpus"][0].keys(), float)


def test_status_of_an_empty_scheduler(daemon: Daemon) -> None:
    assert daemon.ctl("status").endswith("\n\nNo clients. Start a program with: nvshare run -- PROGRAM\n")
    assert json.loads(daemon.ctl("status", "-o", "json"))["gpus"] == []
    assert yaml.safe_load(daemon.ctl("status", "-o", "yaml"))["gpus"] == []


def test_a_story_tells_why_a_client_waits(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    text = daemon.ctl("story", waits.name)
    assert re.match(
        rf"small \({waits.name}\) has been waiting for {SHORT} for \d+\.\d s, at place 1: it needs 8.00 GiB, and"
        rf" 4.40 GiB are free beside big \({runs.name}\); the present turn ends in \d+\.\d s\. It will"
        r" probably start within \d+ s\.",
        text,
    )
    assert f"Client registered: {waits.name}" in text
    assert f"Client small ({waits.name}) waits for {SHORT}, place 1" in text
    assert f"big ({runs.name}) has been running on {SHORT} for" in daemon.ctl("story", runs.name)
    assert len(daemon.ctl("story", waits.name, "-n", "1").splitlines()) == 2, "the summary and one line"


def test_the_story_of_a_client_that_left_can_still_be_told(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer") as client:
        client.take_lock()
    daemon.log.wait_for("Client left")
    text = daemon.ctl("story", client.name)
    assert f"trainer ({client.name}) has left." in text
    assert f"Lock given to client trainer ({client.name})" in text
    assert daemon.ctl("story", "trainer") == text


def test_events_end_with_the_present(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    lines = daemon.ctl("events").splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  Client registered: .*", lines[0])
    assert f"Client small ({waits.name}) waits for {SHORT}, place 1" in lines[-1]
    assert any(f"Lock given to client big ({runs.name})" in line for line in lines)
    assert daemon.ctl("events", "--last=0") == ""


def test_the_number_of_events_counts_lines(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    _, waits = two
    for number in range(5):  # reports of memory are steps without a line
        waits.send(wire.MemUpdate(0, 0, (7 + number) * GIB, 0))
    waits.hear_all()
    whole = daemon.ctl("events").splitlines()
    for count in (1, 2, 3):
        assert daemon.ctl("events", "-n", str(count)).splitlines() == whole[-count:]


def test_events_can_be_followed_until_the_scheduler_ends(daemon: Daemon) -> None:
    follower = subprocess.Popen(
        [sys.executable, "-m", "nvshare.cli.ctl.nvsharectl", "--socket", daemon.operator_socket, "events", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(PYTHONUNBUFFERED="1"),
    )
    assert follower.stdout is not None
    seen = LogReader(follower.stdout)
    with daemon.client().register(entry(7)) as client:
        # The follower may come late; it then sees this among the last events, else as it happens.
        seen.wait_for(f"Client registered: {client.name}")
        client.take_lock()
        seen.wait_for(rf"Lock given to client .*\({client.name}\)")
    seen.wait_for(rf"Client left: .*\({client.name}\)")
    assert daemon.stop() == 0
    assert follower.wait(60) == 3
    assert follower.stderr is not None
    assert b"closed the connection" in follower.stderr.read()


# Changing.


def test_the_quantum_can_be_set_for_all_and_for_one(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    assert two
    daemon.ctl("set-tq", "33")
    gpus = daemon.status()["gpus"]
    assert [(gpu["mode"], gpu["quantum_seconds"]) for gpu in gpus] == [("fixed", 33)] * 2
    daemon.ctl("set-tq", "44", "--gpu", gpu_name(1).removeprefix("GPU-"))
    assert [gpu["quantum_seconds"] for gpu in daemon.status()["gpus"]] == [33, 44]
    daemon.ctl("set-mode", "auto", "--gpu", GPU)
    assert [gpu["mode"] for gpu in daemon.status()["gpus"]] == ["auto", "fixed"]
    assert daemon.status()["gpus"][0]["quantum_seconds"] == 50
    daemon.ctl("set-mode", "auto")
    assert [gpu["mode"] for gpu in daemon.status()["gpus"]] == ["auto", "auto"]
    daemon.log.wait_for("Quantum set to 33 s")
    daemon.log.wait_for(f"Quantum mode set to auto on {GPU}")


def test_an_order_says_what_it_has_changed(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    label = f"process {daemon.status()['gpus'][0]['clients'][0]['pid']}"
    assert daemon.ctl("set-tq", "33") == "Quantum 33 s, mode fixed, on all GPUs.\n"
    assert daemon.ctl("set-mode", "auto", "--gpu", GPU) == f"Mode auto, on {SHORT}.\n"
    assert daemon.ctl("limit", runs.name, "12Gi").startswith(f"{label}: limit 12.00 GiB on each GPU; it uses ")
    assert daemon.ctl("limit", waits.name, "1Gi").endswith(
        ", which is more: what it has allocated stays, and new allocations are refused until it uses less than the"
        " limit.\n"
    )
    assert daemon.ctl("limit", runs.name, "0") == f"{label}: no limit.\n"
    assert daemon.ctl("limit", runs.name, "none").endswith("the operator's limit is removed; no limit applies.\n")
    assert daemon.ctl("anti-thrash", "off") == "Scheduling is off: 2 clients may run at the same time.\n"
    assert daemon.ctl("anti-thrash", "on") == (
        "Scheduling is on: 2 clients take turns where they do not fit together.\n"
    )


def test_a_short_quantum_switches_at_once(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    daemon.ctl("set-tq", "1")
    dropped = runs.hear_until(wire.DropLock)
    assert dropped.reason == wire.DropReason.QUANTUM
    runs.release(dropped.lock, again=True)
    waits.expect(wire.MemAvailable)
    waits.expect(wire.LockOk)


def test_anti_thrash_off_lets_everybody_run(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    daemon.ctl("anti-thrash", "off")
    for client in two:
        assert client.hear_until(wire.SchedOff).client == client.id
    assert daemon.status()["scheduling"] is False
    assert "scheduling OFF" in daemon.ctl("status")
    assert "scheduling is off" in daemon.ctl("story", waits.name)
    assert {seat["state"] for gpu in daemon.status()["gpus"] for seat in gpu["clients"]} == {"unscheduled"}
    daemon.ctl("anti-thrash", "on")
    for client in two:
        client.hear_until(wire.SchedOn)
    runs.take_lock(10 * GIB)


def test_the_originals_flags_work(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    assert two
    daemon.ctl("-T", "30")
    assert daemon.status()["gpus"][0]["quantum_seconds"] == 30
    daemon.ctl("--set-tq=31")
    assert daemon.status()["gpus"][0]["quantum_seconds"] == 31
    daemon.ctl("-S", "off")
    assert daemon.status()["scheduling"] is False
    daemon.ctl("--anti-thrash=on", "-T", "32")
    assert daemon.status()["scheduling"] is True
    assert daemon.status()["gpus"][0]["quantum_seconds"] == 32


def test_a_limit_reaches_the_client_and_the_log(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, _ = two
    label = f"process {daemon.status()['gpus'][0]['clients'][0]['pid']}"
    daemon.ctl("limit", runs.name, "12Gi")
    assert runs.hear_until(wire.UpdateLimit).limit == 12 * GIB
    daemon.ctl("limit", runs.name, "14Gi")
    assert runs.hear_until(wire.UpdateLimit).limit == 14 * GIB
    daemon.ctl("limit", runs.name, "--clear")
    assert runs.hear_until(wire.UpdateLimit).limit == 0
    daemon.log.wait_for("to client .*: 0 bytes")
    told = [line.split("  ", 1)[1] for line in daemon.ctl("events").splitlines() if "Memory limit" in line]
    changes = ["none -> 12.00 GiB", "12.00 GiB -> 14.00 GiB", "14.00 GiB -> none"]
    assert told == [f"Memory limit changed for {label}: {change}" for change in changes], "people read GiB"
    ours = f"Memory limit|UPDATE_LIMIT to client {runs.name}"
    text = [line for line in daemon.log.lines if re.search(ours, line)]
    head = "[NVSHARE][INFO]: "
    assert text == [
        f"{head}Memory limit changed for {label}: 0 -> 12884901888 bytes",
        f"{head}Sending UPDATE_LIMIT to client {runs.name}: 12884901888 bytes (12.00 GiB)",
        f"{head}Memory limit changed for {label}: 12884901888 -> 15032385536 bytes",
        f"{head}Sending UPDATE_LIMIT to client {runs.name}: 15032385536 bytes (14.00 GiB)",
        f"{head}Memory limit changed for {label}: 15032385536 -> 0 bytes",
        f"{head}Sending UPDATE_LIMIT to client {runs.name}: 0 bytes (limit removed)",
    ]


@pytest.mark.parametrize("words", [["none"], ["--clear"]], ids=" ".join)
def test_taking_a_limit_back_lets_the_programs_own_count_again(daemon: Daemon, words: list[str]) -> None:
    with daemon.client().register(own_limit=8 * GIB) as client:
        assert client.hear_until(wire.UpdateLimit).limit == 8 * GIB
        daemon.ctl("limit", client.name, "2Gi")
        assert client.hear_until(wire.UpdateLimit).limit == 2 * GIB
        daemon.ctl("limit", client.name, *words)
        assert client.hear_until(wire.UpdateLimit).limit == 8 * GIB


def test_a_limit_is_for_the_whole_run(daemon: Daemon) -> None:
    run = b"\x5a" * 16
    with daemon.client().register(run=run) as one, daemon.client().register(run=run) as other:
        daemon.ctl("limit", f"run {run.hex()[:8]}", "2Gi")
        for client in (one, other):
            assert client.hear_until(wire.UpdateLimit).limit == 2 * GIB
        clients = daemon.status()["gpus"][0]["clients"]
        assert [client["limit_bytes"] for client in clients] == [2 * GIB, 2 * GIB]


def test_limits_are_listed_and_taken_back_without_a_process(daemon: Daemon) -> None:
    key = f"run/{os.getuid()}-{(run := bytes([0x5A]) * 16).hex()}"
    assert daemon.ctl("limits") == "No limits.\n"
    with daemon.client().register(run=run) as one:
        daemon.ctl("limit", one.name, "2Gi")
    wait_until(lambda: not daemon.status()["gpus"], "the process has left")
    assert daemon.ctl("limits").splitlines()[1].split() == [key, "run", "5a5a5a5a", "2.00Gi", "operator", "0"]
    (listed,) = json.loads(daemon.ctl("limits", "-o", "json"))
    memory, core = {"limit_bytes": 2 * GIB, "source": "operator"}, {"core_limit_percent": 0, "core_source": None}
    assert listed == {"group": key, "label": "run 5a5a5a5a", **memory, **core, "clients": 0}
    with daemon.client().register(run=run) as one:
        assert one.hear_until(wire.UpdateLimit).limit == 2 * GIB
    daemon.ctl("limit", key, "none")
    assert daemon.ctl("limits") == "No limits.\n"


def test_a_client_can_be_meant_by_the_name_its_user_gave_it(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer") as one, daemon.client().register(name=b"other"):
        assert f"trainer ({one.name}) has no work" in daemon.ctl("story", "trainer")
