"""`nvsharectl top` in a real terminal (a pty), in a pipe, and on terminals that cannot do much."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nvshare import admin
from nvshare.cli.ctl.keyboard import key_of
from nvshare.cli.ctl.render import client_table
from nvshare.cli.ctl.top_rows import next_sort, plain_lines
from nvshare.cli.ctl.top_view import HELP, View, screen, shown_rows
from nvshare.core.snapshots.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot, SeatState, Snapshot
from support.terminal import Terminal
from web.players import Player

GIB = 1 << 30
SECOND = 1_000_000_000
CARD = "GPU-11111111-2222-3333-4444-555555555555"
SOURCE = Path(__file__).resolve().parents[2] / "src"
TOP = (sys.executable, "-m", "nvshare.cli.ctl.nvsharectl", "--socket")


def seat(
    state: SeatState, *, place: int = 0, gib: float = 1, since: float = 5, limit: int = 0, turns: int = 1
) -> SeatSnapshot:
    return SeatSnapshot(
        gpu=CARD,
        state=state,
        is_running=state == "running",
        since_ns=int(since * SECOND),
        place=place,
        memory_allocated=int(gib * GIB),
        swappable=int(gib * GIB),
        unswappable=0,
        contexts=1,
        limit=limit,
        budget=None,
        turns=turns,
        held_ns=6 * SECOND,
        waited_ns=2 * SECOND,
        last_scheduled_ns=0,
        is_idle=False,
    )


def status(*clients: tuple[str, SeatSnapshot]) -> admin.Status:
    gpu = GpuSnapshot(CARD, 16 * GIB, 14 * GIB, 2 * GIB, 8 * GIB, GIB, 0, 1, 1, "auto", 50 * SECOND, 3 * SECOND, False)
    made = tuple(
        ClientSnapshot(0xA0 + index, "run/x", f"run {index}", name, 4000 + index, 0, 100, (one,))
        for index, (name, one) in enumerate(clients)
    )
    return admin.Status("0.1.0", 1000.0, 1060.0, Snapshot(True, False, "fcfs", (gpu,), made))


def text_of(shown: admin.Status, view: View, width: int = 120, height: int = 30) -> str:
    from rich.console import Console

    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(screen(shown, view, width=width, height=height))
    return capture.get()


THREE = status(
    ("waiter", seat("waiting", place=1, gib=9)),
    ("runner", seat("running", gib=8, limit=10 * GIB)),
    ("sleeper", seat("idle", gib=2, since=0)),
)


def test_clients_that_run_come_first_then_those_that_wait() -> None:
    assert [row.client.name for row in shown_rows(THREE, View())] == ["runner", "waiter", "sleeper"]


def test_every_order_can_be_reached_and_turned_round() -> None:
    sort, seen = "state", []
    for _ in range(8):
        seen.append(sort)
        forward = [row.client.name for row in shown_rows(THREE, View(sort=sort))]
        backward = [row.client.name for row in shown_rows(THREE, View(sort=sort, is_reversed=True))]
        assert forward == backward[::-1]
        sort = next_sort(sort)
    assert len(set(seen)) == 8
    assert sort == "state"
    assert [row.client.name for row in shown_rows(THREE, View(sort="memory"))] == ["waiter", "runner", "sleeper"]


def test_a_filter_looks_at_names_states_and_ids() -> None:
    for wanted, name in (("WAIT", "waiter"), ("a1", "runner"), ("run 2", "sleeper")):
        assert [row.client.name for row in shown_rows(THREE, View(wanted=wanted))] == [name]


def test_the_screen_shows_memory_turns_limit_and_shares() -> None:
    shown = text_of(THREE, View())
    assert "1 running, 1 waiting  quantum 50.0s auto, 3.0s left" in shown
    assert "9.00Gi / 14.00Gi safe" in shown
    row = next(line for line in shown.splitlines() if "runner" in line)
    for text in ("running", "5.0s", "8.00Gi", "10.00Gi", "75%", "25%"):
        assert text in row


def test_the_share_that_a_run_got_is_shown_beside_its_core_limit() -> None:
    assert "CORE" not in text_of(THREE, View())
    limited = [replace(seat("running"), core_limit_percent=30, gpu_percent=got) for got in (10.4, 18.2)]
    shown = status(("one", limited[0]), ("other", limited[1]))
    rows = [line for line in text_of(shown, View()).splitlines() if "one" in line or "other" in line]
    assert len(rows) == 2
    assert all("29% of 30%" in row for row in rows), "both are processes of the run"
    assert all(line.endswith("  core 29% of 30%") for line in plain_lines(shown_rows(shown, View())))


def test_what_a_client_had_is_shown_beside_what_it_is_due_by_its_weight() -> None:
    assert "SHARE" not in text_of(THREE, View())
    due = [replace(seat("running"), due_percent=due, gpu_percent=had) for due, had in ((25.0, 31.2), (75.0, 68.8))]
    shown = status(("one", due[0]), ("other", due[1]), ("sleeper", seat("idle")))
    screen_text = text_of(shown, View())
    for name, cell in (("one", "31% of 25%"), ("other", "69% of 75%")):
        assert cell in next(line for line in screen_text.splitlines() if name in line)
    lines = plain_lines(shown_rows(shown, View()))
    assert [line.partition("  share ")[2] for line in lines] == ["31% of 25%", "69% of 75%", ""]


def test_a_client_that_had_its_share_is_shown_as_held_back() -> None:
    over = replace(seat("blocked"), held_back_by="core limit", core_limit_percent=30)
    shown = status(("over", over))
    assert "held back" in text_of(shown, View())
    assert "held back" in client_table(shown.node)


def test_a_client_that_is_paused_and_had_its_share_is_shown_as_paused() -> None:
    both = replace(seat("paused"), held_back_by="core limit", core_limit_percent=30)
    shown = status(("over", both))
    for text in (text_of(shown, View()), client_table(shown.node), *plain_lines(shown_rows(shown, View()))):
        assert ("paused" in text, "held back" in text) == (True, False), text


def test_a_screen_never_has_more_lines_than_the_terminal() -> None:
    crowd = status(*[(f"client-{index}", seat("running")) for index in range(100)])
    for height in (10, 17, 30):
        assert len(text_of(crowd, View(), height=height).splitlines()) <= height
    assert "client-99" in text_of(crowd, View(chosen=(CARD, 0xA0 + 99)), height=30)


def test_a_terminal_that_is_too_small_says_so() -> None:
    assert "make the terminal at least 60x10: it is 50x8" in text_of(THREE, View(), width=50, height=8)


def test_without_utf8_the_bar_is_plain() -> None:
    shown = text_of(THREE, View(is_ascii=True))
    assert shown.isascii()
    assert "####" in shown


def test_escape_sequences_in_names_do_not_reach_the_terminal() -> None:
    evil = status(("\x1b]0;owned\x07[bold]x", seat("running")))
    assert "\x1b" not in text_of(evil, View())
    assert "[bold]x" in text_of(evil, View())
    assert all(line.isprintable() for line in plain_lines(shown_rows(evil, View())))


@pytest.mark.parametrize(("data", "key"), [(b"q", "q"), (b"\x1b[A", "up"), (b"\x1b", "escape"), (b"\x1b[99Z", "")])
def test_keys_have_names(data: bytes, key: str) -> None:
    assert key_of(data) == key


# With a real scheduler.


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[str, str]]:
    import socket

    paths = (str(tmp_path / "c" / "s"), str(tmp_path / "o" / "c"))
    command = [sys.executable, "-m", "nvshare.scheduler.main", "--socket", paths[0], "--operator-socket", paths[1]]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox, (tmp_path / "log").open("wb") as log:
        inbox.bind(str(tmp_path / "n"))
        inbox.settimeout(60)
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "NOTIFY_SOCKET": str(tmp_path / "n")}
        long_turns = ("--switch-time-mode", "fixed", "--switch-time-fixed", "600")
        process = subprocess.Popen([*command, "--nvml", "off", *long_turns], env=environment, stderr=log)
        inbox.recv(100)
        yield paths
        process.terminate()
        process.wait(60)


def top(socket: str, *args: str, columns: int = 110, lines: int = 30, **variables: str) -> Terminal:
    return Terminal(*TOP, socket, "top", *args, columns=columns, lines=lines, **variables)


def test_top_in_a_terminal_is_live_and_obeys_keys(place: tuple[str, str]) -> None:
    with Player(place[0], "first", gib=9) as first, Player(place[0], "second", gib=9) as second:
        first.ask()
        assert first.runs.wait(60)
        terminal = top(place[1], "--delay", "0.2")
        terminal.read_until(r"first +\S+ .*running")
        second.ask()
        terminal.read_until(r"second +\S+ .*waiting 1")
        terminal.press("s")
        terminal.read_until("by memory")
        terminal.press("r")
        terminal.read_until("by memory reversed")
        terminal.press("/sec\r")
        terminal.read_until("filter 'sec'")
        terminal.press("p")
        terminal.read_until("PAUSED")
        terminal.press("q")
        assert terminal.end() == 0


def test_top_without_utf8_draws_with_ascii(place: tuple[str, str]) -> None:
    with Player(place[0], "only", gib=8) as only:
        only.ask()
        terminal = top(place[1], PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
        assert terminal.read_until("####").isascii()
        terminal.press("q")
        assert terminal.end() == 0


def test_top_in_a_small_terminal_asks_for_a_bigger_one(place: tuple[str, str]) -> None:
    terminal = top(place[1], columns=50, lines=8)
    terminal.read_until("make the terminal at least 60x10")
    terminal.press("q")
    assert terminal.end() == 0


def test_top_in_a_pipe_is_plain_lines(place: tuple[str, str]) -> None:
    with Player(place[0], "piped", gib=3) as piped:
        piped.ask()
        assert piped.runs.wait(60)
        command = [*TOP, place[1], "top", "-n", "2", "-d", "0.1"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    assert all(re.search(r"^\d\d:\d\d:\d\d  GPU-11111111  .*piped  running .*memory 3.00Gi", line) for line in lines)


def test_top_without_a_scheduler_is_one_line(tmp_path: Path) -> None:
    command = [*TOP, str(tmp_path / "none"), "top"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3
    assert result.stderr.count("\n") == 1
    assert "no scheduler at" in result.stderr


def test_a_waiting_client_shows_by_when_it_will_start() -> None:
    waits = replace(seat("waiting", place=1), expected_start_ns=90 * SECOND)
    state = status(("first", seat("running")), ("second", waits))
    for width in (80, 200):
        (line,) = [line for line in text_of(state, View(), width).splitlines() if "second" in line]
        assert "<1m30s" in line.split()


def test_a_gpu_is_shown_by_index_and_model() -> None:
    shown = status(("runner", seat("running")))
    gpu = replace(shown.node.gpus[0], index=3, name="NVIDIA A100")
    text = text_of(replace(shown, node=replace(shown.node, gpus=(gpu,))), View())
    assert "GPU 3 A100  GPU-11111111  16.00Gi" in text


def test_the_filter_counts_while_it_is_typed() -> None:
    assert "waiter" not in text_of(THREE, View(typing="runn"))
    assert "waiter" in text_of(THREE, View(typing=""))


def test_help_explains_keys_states_and_the_bar() -> None:
    text = text_of(THREE, View(is_help=True), width=80, height=24)
    for word in ("quit", "filter while you type", "silent", "safe limit"):
        assert word in text
    assert max(map(len, HELP.splitlines())) <= 80


def test_the_line_of_a_gpu_ends_with_a_whole_word() -> None:
    (gpu,) = THREE.node.gpus
    gpu = replace(gpu, index=0, name="NVIDIA A100-SXM4-40GB", is_move_cost_measured=True, move_cost_ns=SECOND // 10)
    shown = replace(THREE, node=replace(THREE.node, gpus=(replace(gpu, foreign_memory=GIB),)))
    wide = "GPU 0 A100-SXM4-40GB  GPU-11111111  16.00Gi  1 running, 1 waiting  quantum 50.0s auto, 3.0s left"
    lines = {width: text_of(shown, View(), width=width).splitlines()[1].rstrip() for width in (60, 80, 100, 120)}
    assert lines[60] == "GPU 0 A100-SXM4-40GB  16.00Gi  1 running, 1 waiting"
    assert lines[80] == "GPU 0 A100-SXM4-40GB  16.00Gi  1 running, 1 waiting  1.00Gi of others"
    assert (
        lines[100]
        == "GPU 0 A100-SXM4-40GB  16.00Gi  1 running, 1 waiting  quantum 50.0s auto, 3.0s left  1.00Gi of others"
    )
    assert lines[120] == f"{wide}  1.00Gi of others"


def test_users_are_shown_on_a_small_screen() -> None:
    for width, shows in ((79, False), (80, True), (200, True)):
        assert ("USER" in text_of(THREE, View(), width=width)) is shows
