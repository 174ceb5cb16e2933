"""nvsharectl against a real scheduler: every command, every exit code, what programs and people read."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nvshare.wire import messages as wire
from support.client import GIB, WireClient, entry, gpu_name
from support.daemon import Daemon, call_ctl, clean_environment, run_ctl
from support.fixtures import StartDaemon
from support.log import LogReader

GPU = gpu_name(0)


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    return start_daemon()


@pytest.fixture
def two(daemon: Daemon) -> Iterator[tuple[WireClient, WireClient]]:
    """One client that runs and one that waits for it."""
    with daemon.client().register() as runs, daemon.client().register(entry(0), entry(1)) as waits:
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
    assert gpu["available_memory"] == gpu["safe_limit"] - 10 * GIB == 16 * GIB * 9 // 10 - 10 * GIB
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
            changing = {"time", "since_ns", "held_ns", "waited_ns", "last_scheduled_time", "quantum_left_ns"}
            return {key: without_time(item) for key, item in value.items() if key not in changing}
        return [without_time(item) for item in value] if isinstance(value, list) else value

    assert without_time(by_yaml) == without_time(by_json)
    assert by_yaml["gpus"][0].keys() == by_json["gpus"][0].keys()
    assert isinstance(by_yaml["time"], float)


def test_status_of_an_empty_scheduler(daemon: Daemon) -> None:
    assert "No clients." in daemon.ctl("status")
    assert json.loads(daemon.ctl("status", "-o", "json"))["gpus"] == []
    assert yaml.safe_load(daemon.ctl("status", "-o", "yaml"))["gpus"] == []


def test_a_story_tells_why_a_client_waits(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    text = daemon.ctl("story", waits.name)
    assert re.match(
        rf"Client {waits.name} waits for {GPU} for \d+\.\d s, place 1: it needs 8.00 GiB, 4.40 GiB are free beside"
        rf" {runs.name}, their turn ends in \d+\.\d s\.",
        text,
    )
    assert f"Client registered: {waits.name}" in text
    assert f"Client {waits.name} waits for {GPU}, place 1" in text
    assert f"Client {runs.name} runs on {GPU}" in daemon.ctl("story", runs.name)


def test_the_story_of_a_client_that_left_can_still_be_told(daemon: Daemon) -> None:
    with daemon.client().register() as client:
        client.take_lock()
    daemon.log.wait_for("Client left")
    text = daemon.ctl("story", client.name)
    assert f"Client {client.name} has left." in text
    assert "Lock given" in text


def test_events_end_with_the_present(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    runs, waits = two
    lines = daemon.ctl("events").splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  Client registered: .*", lines[0])
    assert f"Client {waits.name} waits for {GPU}, place 1" in lines[-1]
    assert any(f"Lock given to client {runs.name}" in line for line in lines)
    assert len(daemon.ctl("events", "-n", "1").splitlines()) < len(lines)
    assert daemon.ctl("events", "--last=0") == ""


def test_events_can_be_followed_until_the_scheduler_ends(daemon: Daemon) -> None:
    follower = subprocess.Popen(
        [sys.executable, "-m", "nvshare.cli.nvsharectl", "--socket", daemon.operator_socket, "events", "--follow"],
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
        seen.wait_for(f"Lock given to client {client.name}")
    seen.wait_for(f"Client left: {client.name}")
    assert daemon.stop() == 0
    assert follower.wait(20) == 3
    assert follower.stderr is not None
    assert b"went away" in follower.stderr.read()


# Changing.


def test_the_quantum_can_be_set_for_all_and_for_one(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    assert two
    daemon.ctl("set-tq", "33")
    gpus = daemon.status()["gpus"]
    assert [(gpu["mode"], gpu["quantum_ns"]) for gpu in gpus] == [("fixed", 33 * 10**9)] * 2
    daemon.ctl("set-tq", "44", "--gpu", gpu_name(1))
    assert [gpu["quantum_ns"] // 10**9 for gpu in daemon.status()["gpus"]] == [33, 44]
    daemon.ctl("set-mode", "auto", "--gpu", GPU)
    assert [gpu["mode"] for gpu in daemon.status()["gpus"]] == ["auto", "fixed"]
    assert daemon.status()["gpus"][0]["quantum_ns"] == 50 * 10**9
    daemon.ctl("set-mode", "auto")
    assert [gpu["mode"] for gpu in daemon.status()["gpus"]] == ["auto", "auto"]
    daemon.log.wait_for("Quantum set to 33 s")
    daemon.log.wait_for(f"Quantum mode set to auto on {GPU}")


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
    assert "anti-thrash OFF" in daemon.ctl("status")
    assert "anti-thrash scheduling is off" in daemon.ctl("story", waits.name)
    daemon.ctl("anti-thrash", "on")
    for client in two:
        client.hear_until(wire.SchedOn)
    runs.take_lock(10 * GIB)


def test_the_originals_flags_work(daemon: Daemon, two: tuple[WireClient, WireClient]) -> None:
    assert two
    daemon.ctl("-T", "30")
    assert daemon.status()["gpus"][0]["quantum_ns"] == 30 * 10**9
    daemon.ctl("--set-tq=31")
    assert daemon.status()["gpus"][0]["quantum_ns"] == 31 * 10**9
    daemon.ctl("-S", "off")
    assert daemon.status()["scheduling"] is False
    daemon.ctl("--anti-thrash=on", "-T", "32")
    assert daemon.status()["scheduling"] is True
    assert daemon.status()["gpus"][0]["quantum_ns"] == 32 * 10**9


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
    ours = f"Memory limit|UPDATE_LIMIT to client {runs.name}"
    text = [line for line in daemon.log.lines if re.search(ours, line)]
    head = "[NVSHARE][INFO]: "
    assert text == [
        f"{head}Memory limit changed for {label}: 0 -> 12884901888 bytes",
        f"{head}Sending UPDATE_LIMIT to client {runs.name}: 12884901888 bytes (12.00 GiB)",
        f"{head}Memory limit changed for {label}: 12884901888 -> 15032385536 bytes",
        f"{head}Sending UPDATE_LIMIT to client {runs.name}: 15032385536 bytes (14.00 GiB)",
        f"{head}Memory limit changed for {label}: 15032385536 -> 0 bytes",
        f"{head}Sending UPDATE_LIMIT to client {runs.name}: 0 bytes (0.00 GiB)",
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
        assert [client["limit"] for client in clients] == [2 * GIB, 2 * GIB]


def test_a_client_can_be_meant_by_the_name_its_user_gave_it(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer") as one, daemon.client().register(name=b"other"):
        assert f"Client {one.name} has no work" in daemon.ctl("story", "trainer")


# Refusals and mistakes.

REFUSED = {
    "no such client": ["story", "ffff"],
    "not an id": ["story", "nobody\x1b[31m"],
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


def test_the_socket_can_be_named_in_the_environment(daemon: Daemon) -> None:
    done = run_ctl("status", NVSHARE_OPERATOR_SOCKET=daemon.operator_socket)
    assert done.returncode == 0
    assert done.stdout.startswith("nvshare ")


def test_a_reader_who_stops_reading_is_no_error(quiet_daemon: Daemon) -> None:
    done = subprocess.run(
        f"'{sys.executable}' -m nvshare.cli.nvsharectl completion bash | true; exit ${{PIPESTATUS[0]}}",
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
    for word in ("status", "set-tq", "set-mode", "anti-thrash", "limit", "events", "story", "completion", "Exit codes"):
        assert word in text
    assert call_ctl()[1] == text
    assert call_ctl("--version")[1].startswith("nvsharectl")
