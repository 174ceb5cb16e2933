"""What status shows: in 80 columns, in one order, with users and models; and what the shell completes."""

import os
import pwd
import subprocess
from collections.abc import Callable

import pytest
from click.shell_completion import BashComplete
from msgspec.structs import replace

from nvshare import admin
from nvshare.cli.ctl import nvsharectl, render
from nvshare.cli.ctl.limit_table import limit_table
from nvshare.cli.ctl.status_table import memory_notes, status_table, unshared_notes
from nvshare.cli.ctl.text_table import table
from nvshare.cli.ctl.users import user_name
from nvshare.cli.nvshare import cli as front
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, HostRoom, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.claim_snapshot import ClaimSnapshot
from nvshare.core.snapshots.limit_snapshot import LimitSnapshot
from nvshare.core.snapshots.snapshot import Snapshot, snapshot
from support.daemon import Daemon, call_ctl

Front = Callable[..., subprocess.CompletedProcess[str]]
CARDS = ("GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa")


def node(*, models: bool = True) -> Snapshot:
    """Two cards: on the first two clients wait and one runs, on the second one rests."""
    made = Node(Settings(), epoch=1)
    for index, uuid in enumerate(CARDS if models else ()):
        made.handle(0, ev.GpuFound(uuid, 40 * GIB, index, "NVIDIA A100-SXM4-40GB"))
    names = ("rests", "a-program-with-a-long-name.py", "waits", "runs")
    for client, name in enumerate(names, 1):
        uuid = CARDS[client == 1]
        claim = Claim(uuid, 40 * GIB)
        label = "namespace/pod-with-a-name-0" if client == 2 else f"run 0000000{client}"
        made.handle(0, ev.ClientRegistered(client, f"run/{client}", label, name, (claim,), pid=client, uid=os.getuid()))
    for client in (4, 3, 2):
        made.handle(10 - client, ev.LockRequested(client, CARDS[0], Memory(swappable=30 * GIB)))
    return snapshot(made, 90 * SECOND)


def status(shown: Snapshot) -> admin.Status:
    return admin.Status("0.1.0", 1000.0, 1090.0, shown)


def test_the_wide_status_shows_what_moved_and_whether_its_cost_is_measured() -> None:
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.GpuFound(CARDS[0], 40 * GIB, 0, "NVIDIA A100-SXM4-40GB"))
    made.handle(0, ev.ClientRegistered(1, "run/1", "run 1", "one", (Claim(CARDS[0], 40 * GIB),), pid=1))
    assert "5.37GB/s assumed" in status_table(status(snapshot(made, 0)), is_wide=True)
    made.handle(0, ev.LockRequested(1, CARDS[0], Memory(4 * GIB)))
    made.handle(SECOND, ev.MemoryMoved(1, CARDS[0], False, 2 * GIB, SECOND // 5))
    made.handle(SECOND, ev.MemoryMoved(1, CARDS[0], True, 3 * GIB, SECOND))
    wide = status_table(status(snapshot(made, SECOND)), is_wide=True)
    assert "10.7GB/s measured" in wide
    assert "2.00Gi 10.7GB/s 3.00Gi" in " ".join(wide.split())
    assert "MOVES" not in status_table(status(snapshot(made, 3)), is_wide=False)


@pytest.mark.parametrize("models", [True, False])
@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_no_line_is_wider_than_the_terminal(width: int, models: bool) -> None:
    text = status_table(status(node(models=models)), is_wide=False, width=width)
    assert max(map(len, text.splitlines()[1:])) <= width
    for word in ("CLIENT", "NAME", "STATE", "waiting 2", "MEMORY"):
        assert word in text


def test_a_column_is_left_out_only_if_there_is_no_room_for_it() -> None:
    head, rows = ["A", "WIDE", "B", "C"], [["1", "x" * 12, "2", "3"]]
    assert table(head, rows, width=10, drop=("A", "WIDE")).splitlines() == ["A  B  C", "1  2  3"]
    assert table(head, rows, width=4, drop=("A", "WIDE")).splitlines() == ["B  C", "2  3"]


def test_ps_shows_users_and_pods_on_a_small_terminal() -> None:
    shown = node(models=True)
    lines = render.client_table(shown, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[:2] == ["CLIENT", "USER"]
    assert "a-program-with-a-lo~" in lines[3]
    in_pods = replace(shown, clients=tuple(replace(client, group="pod/1") for client in shown.clients))
    lines = render.client_table(in_pods, width=100).splitlines()
    assert max(map(len, lines)) <= 100
    assert "namespace/pod-with-a-name-0  a-program-with-a-long-na~" in lines[3]


def test_the_model_of_a_gpu_is_shown_on_a_small_terminal() -> None:
    lines = render.gpu_table(node(), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines[1:]] == [["0", "A100-SXM4-40GB"], ["1", "A100-SXM4-40GB"]]


@pytest.mark.parametrize("width", [60, 80, None])
def test_a_client_whose_memory_the_host_cannot_take_is_named(width: int | None) -> None:
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.ClientRegistered(1, "run/1", "run 1", "big", (Claim("g", 16 * GIB),), pid=1))
    made.handle(0, ev.LockRequested(1, "g", Memory(12 * GIB)))
    made.handle(0, ev.HostMemoryMeasured((HostRoom(1, "g", 4 * GIB),)))
    text = status_table(status(snapshot(made, 0)), is_wide=False, width=width)
    assert "0001: the host has no room for 8.00Gi of its GPU memory;" in text
    assert width is None or max(map(len, text.splitlines()[1:])) <= width


@pytest.mark.parametrize("width", [60, None])
def test_processes_that_run_unshared_are_named(width: int | None) -> None:
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.GpuFound("g", 16 * GIB, 3, "A100"))
    assert "take no turns" not in status_table(status(snapshot(made, 0)), is_wide=False, width=width)
    made.handle(0, ev.MemoryMeasured("g", GIB, foreign_pids=(77, 4711)))
    text = " ".join(status_table(status(snapshot(made, 0)), is_wide=False, width=width).split())
    assert text.endswith("GPU 3: processes that are no clients and take no turns: 77, 4711.")


def test_work_that_no_client_accounts_for_is_shown() -> None:
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.GpuFound("g", 16 * GIB, 3, "A100"))
    [gpu] = snapshot(made, 0).gpus
    assert render.accounted(gpu) == ""
    assert render.gpu_table(snapshot(made, 0), is_wide=True).splitlines()[1].split()[-3] == "-"
    made.handle(SECOND, ev.UtilizationMeasured("g", 19))
    assert unshared_notes(snapshot(made, SECOND)) == []
    made.handle(3 * SECOND, ev.UtilizationMeasured("g", 70))
    shown = snapshot(made, 3 * SECOND)
    assert render.accounted(shown.gpus[0]) == "0% of 53%"
    assert "0% of 53%" in render.gpu_table(shown, is_wide=True)
    note = "GPU 3: in 53 % of its time it does work that no client accounts for."
    assert unshared_notes(shown) == [note]


def test_clients_without_bulk_moves_are_named_with_the_reason() -> None:
    made = Node(Settings(), epoch=1)
    for client, reason in enumerate(("switched off", "prefetches have no effect", "switched off", ""), 1):
        made.handle(0, ev.ClientRegistered(client, f"run/{client}", "run", "one", (Claim("g", 16 * GIB),), pid=client))
        made.handle(0, ev.MoverReported(client, "g", reason))
    assert memory_notes(snapshot(made, 0)) == [
        "0001, 0003: no bulk moves: switched off.",
        "0002: no bulk moves: prefetches have no effect.",
    ]


def test_memory_above_a_limit_that_cannot_leave_the_card_is_named_with_the_reason() -> None:
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.ClientRegistered(1, "run/1", "run 1", "one", (Claim("g", 16 * GIB),), pid=1, holds_memory=True))
    made.handle(0, ev.LockRequested(1, "g", Memory(12 * GIB)))
    made.handle(0, ev.MoverReported(1, "g", "switched off"))
    made.handle(0, ev.LimitSet("run/1", 8 * GIB))
    assert "0001: 4.00Gi above its limit stay on the card: switched off." in memory_notes(snapshot(made, 0))


def test_clients_most_of_whose_memory_cannot_be_evicted_are_named() -> None:
    made = Node(Settings(), epoch=1)
    for client, (swappable, unswappable) in enumerate(((0, 3), (4, 3), (0, 1)), 1):
        made.handle(0, ev.ClientRegistered(client, f"run/{client}", "run", "one", (Claim("g", 16 * GIB),), pid=client))
        memory = Memory(swappable=swappable * GIB, unswappable=unswappable * GIB)
        made.handle(0, ev.MemoryChanged(client, "g", memory))
    (line,) = memory_notes(snapshot(made, 0))
    assert line.startswith("0001: 3.00Gi cannot be evicted: it comes from pools")


def test_a_program_reads_everything() -> None:
    text = status_table(status(node()), is_wide=False)
    for word in (*CARDS, "A100-SXM4-40GB", "a-program-with-a-long-name.py", "TURNS", "USER", "OTHERS"):
        assert word in text


def test_clients_are_shown_by_gpu_then_those_that_run_then_by_place() -> None:
    order = [(client.name[:5], seat.place) for client, seat in render.in_order(node())]
    assert order == [("runs", 0), ("waits", 1), ("a-pro", 2), ("rests", 0)]


def test_claims_are_shown_with_their_pods_if_there_are_any() -> None:
    shown = node()
    assert "CLAIM" not in status_table(status(shown), is_wide=False)
    claims = (
        ClaimSnapshot("team/shared", "u-1", CARDS[0], 8 * GIB, 3 * GIB, ("team/a", "team/b")),
        ClaimSnapshot("team/unused", "u-2", "GPU-of-another-node", GIB, 0, ()),
    )
    text = status_table(status(replace(shown, claims=claims)), is_wide=False)
    assert text.splitlines()[-3:] == [
        "CLAIM        GPU                  LIMIT   USED    PODS",
        "team/shared  0                    8.00Gi  3.00Gi  team/a, team/b",
        "team/unused  GPU-of-another-node  1.00Gi  0Mi     -",
    ]


def test_the_user_of_a_client_is_shown() -> None:
    assert user_name(os.getuid()) == pwd.getpwuid(os.getuid()).pw_name
    assert (user_name(None), user_name(4_000_000)) == ("-", "4000000")


def test_the_time_that_is_left_is_shown_only_if_somebody_waits() -> None:
    shown = node()
    lone = replace(shown, gpus=(replace(shown.gpus[0], waiting=0, quantum_left_ns=0),), clients=())
    assert render.gpu_table(lone).splitlines()[1].split()[-1] == "-"


def test_a_cell_that_is_cut_says_so() -> None:
    text = table(["NAME", "N"], [["abcdefghij", "1"]], width=10, cut=("NAME",))
    assert text.splitlines() == ["NAME     N", "abcdef~  1"]


def test_ps_shows_the_programs_of_all_or_of_one_user(daemon: Daemon, nvshare: Front) -> None:
    with daemon.client().register(name=b"trainer") as client:
        told = nvshare("ps", "--socket", daemon.operator_socket)
        assert [client.name, pwd.getpwuid(os.getuid()).pw_name] == told.stdout.splitlines()[1].split()[:2]
        assert "trainer" in nvshare("ps", "--user", "me", "--socket", daemon.operator_socket).stdout
        other = nvshare("ps", "--user", "daemon", "--socket", daemon.operator_socket)
        assert (other.returncode, other.stdout) == (0, "")
        assert other.stderr == "No program of user daemon shares a GPU; 1 of others.\n"
        nobody = nvshare("ps", "--user", "no-such-user", "--socket", daemon.operator_socket)
        assert nobody.returncode == 2
        assert nobody.stderr == "nvshare: ps: this machine has no user no-such-user\n"
        nobody = nvshare("ps", "--user", "12345", "--socket", daemon.operator_socket)
        assert (nobody.returncode, nobody.stdout) == (0, "")


def test_a_long_line_of_a_story_is_wrapped_between_words() -> None:
    line = admin.StepLine(0.0, "Client train-2 (6aa2) moved 9.00 GiB from GPU-c1fb0f15 to the host in 811.0 ms")
    assert len(render.step_line(line).splitlines()) == 1
    first, second = render.step_line(line, width=80).splitlines()
    assert first.endswith("GPU-c1fb0f15 to the host")
    assert second == " " * 14 + "in 811.0 ms"


def test_old_and_new_names_of_a_command_do_the_same(daemon: Daemon) -> None:
    for old, new, value in (("set-tq", "set-quantum", "33"), ("anti-thrash", "scheduling", "off")):
        daemon.ctl(new, value)
        assert daemon.ctl(old, value) == daemon.ctl(new, value)


def completed(group: object, program: str, *words: str) -> list[tuple[str, str]]:
    made = BashComplete(group, {}, program, "_X")  # type: ignore[arg-type]
    return [(item.type, str(item.value)) for item in made.get_completions(list(words[:-1]), words[-1])]


def test_clients_and_gpus_are_completed(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer") as client:
        uuid = daemon.status()["gpus"][0]["uuid"]
        before = ("--socket", daemon.operator_socket)
        assert completed(nvsharectl.cli, "nvsharectl", *before, "story", "tra") == [("plain", "trainer")]
        assert ("plain", client.name) in completed(nvsharectl.cli, "nvsharectl", *before, "limit", client.name[:2])
        assert completed(nvsharectl.cli, "nvsharectl", *before, "set-quantum", "5", "--gpu", "GPU") == [("plain", uuid)]


def test_gpus_of_run_and_users_of_ps_are_completed(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon.client().register(name=b"trainer"):
        uuid = daemon.status()["gpus"][0]["uuid"]
        monkeypatch.setenv("NVSHARE_OPERATOR_SOCKET", daemon.operator_socket)
        assert completed(front, "nvshare", "run", "--gpu", "GPU") == [("plain", uuid)]
        me = pwd.getpwuid(os.getuid()).pw_name
        assert completed(front, "nvshare", "ps", "--user", "") == [("plain", "me"), ("plain", me)]


def test_limits_fit_on_a_terminal() -> None:
    limits = [LimitSnapshot("pod/" + "c0ffee" * 6, "a-namespace/" + "a-pod" * 8, 8 * GIB, "annotation", 3)]
    for width in (60, 80, 120):
        assert max(map(len, limit_table(limits, width).splitlines())) <= width
    assert "c0ffee" * 6 in limit_table(limits)


def test_core_limits_have_columns_if_anybody_has_one() -> None:
    memory = LimitSnapshot("run/1", "first", 8 * GIB, "operator", 1)
    assert limit_table([memory]).split("\n")[0].split() == ["GROUP", "WHO", "LIMIT", "FROM", "CLIENTS"]
    core = LimitSnapshot("run/2", "second", 0, None, 2, 30, "environment")
    assert [line.split() for line in limit_table([memory, core]).splitlines()] == [
        ["GROUP", "WHO", "LIMIT", "FROM", "CORE", "CORE", "FROM", "CLIENTS"],
        ["run/1", "first", "8.00Gi", "operator", "-", "-", "1"],
        ["run/2", "second", "-", "-", "30%", "environment", "2"],
    ]


def test_files_are_completed_after_run() -> None:
    assert completed(front, "nvshare", "run", "--", "./tra") == [("file", "./tra")]


def test_without_a_scheduler_nothing_is_completed() -> None:
    assert completed(nvsharectl.cli, "nvsharectl", "--socket", "/nowhere", "story", "") == []
    assert call_ctl("--socket", "/nowhere", "status")[0] == 3
