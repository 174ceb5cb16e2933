"""`nvsharectl top` on screens of several sizes, in tmux, with two GPUs: what a person sees, line by line."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli.test_top import CARD, SOURCE, place, seat, status, text_of
from nvshare import admin
from nvshare.cli.ctl.top_view import View
from support.waiting import wait_until
from web.players import CARDS, Player

__all__ = ["place"]
TWIN = f"GPU-{CARDS[1]}"
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def crowd(gpus: int, clients: int) -> admin.Status:
    """Clients on GPUs with index and model."""
    made = status(*[(f"program-{number}", seat("waiting", place=number + 1)) for number in range(clients)])
    (card,) = made.node.gpus
    uuids = [f"GPU-{number:08d}-2222-3333-4444-555555555555" for number in range(gpus)]
    cards = tuple(replace(card, uuid=uuid, index=number, name="NVIDIA A100") for number, uuid in enumerate(uuids))
    moved = tuple(
        replace(client, seats=(replace(client.seats[0], gpu=uuids[number % gpus]),))
        for number, client in enumerate(made.node.clients)
    )
    return replace(made, node=replace(made.node, gpus=cards, clients=moved))


def test_clients_are_under_the_heading_of_their_gpu_in_every_order() -> None:
    for sort in ("state", "name", "memory"):
        for is_reversed in (False, True):
            view = View(sort=sort, is_reversed=is_reversed)
            lines = text_of(crowd(2, 4), view, 100, 30).splitlines()
            table = [line.split()[:2] for line in lines[6:-1]]
            names = [words[1] for words in table]
            assert names[0] == "0"
            assert names[3] == "1"
            assert sorted(names[1:3]) == ["program-0", "program-2"]
            assert sorted(names[4:6]) == ["program-1", "program-3"]


def test_eight_gpus_have_a_line_each_on_a_small_screen() -> None:
    lines = text_of(crowd(8, 16), View(), 80, 24).splitlines()
    assert len(lines) <= 24
    assert [line.split()[1] for line in lines[1:9]] == [str(number) for number in range(8)]
    assert all(line.rstrip().endswith("1 run 1 wait") for line in lines[1:9])
    assert lines[9].split()[:2] == ["CLIENT", "NAME"]


def test_a_name_is_whole_before_anybody_reads_to_whom_it_belongs() -> None:
    shown = status(("a-name-of-twenty-two-x", seat("waiting", place=1)))
    for width in (80, 90, 100, 120, 200):
        text = text_of(shown, View(), width)
        assert "a-name-of-twenty" in text, width
        assert ("WHO" in text) == (width >= 120), width


def test_a_chosen_client_is_on_the_screen_wherever_it_is() -> None:
    shown = crowd(2, 60)
    for client in shown.node.clients:
        view = View(chosen=(client.seats[0].gpu, client.id))
        text = text_of(shown, view, 80, 24)
        assert re.search(rf"{client.name}\b", text)
        assert len(text.splitlines()) <= 24


def test_a_story_is_wrapped_and_scrolls() -> None:
    lines = ("a long sentence " * 20, "", *[f"step {number}" for number in range(100)])
    end = text_of(crowd(1, 1), View(story=lines), 80, 24).splitlines()
    assert end[-2] == "step 99"
    assert len(end) == 24
    begin = text_of(crowd(1, 1), View(story=lines, story_end=1000), 80, 24).splitlines()
    assert begin[0].startswith("a long sentence")
    assert max(map(len, begin)) <= 80


class Tmux:
    """A terminal of a given size that draws what the program says, as a person sees it."""

    def __init__(self, folder: Path, path: str, columns: int, lines: int) -> None:
        self._base = ["tmux", "-f", "/dev/null", "-S", str(folder / f"t{columns}")]
        command = f"exec {sys.executable} -m nvshare.cli.ctl.nvsharectl --socket {path} top --delay 0.2"
        variables = {name: value for name, value in os.environ.items() if name not in ("TMUX", "COLUMNS", "LINES")}
        variables |= {"PYTHONPATH": str(SOURCE), "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        start = ["new-session", "-d", "-x", str(columns), "-y", str(lines), command]
        subprocess.run([*self._base, *start], env=variables, check=True, timeout=60)

    def press(self, *keys: str) -> None:
        subprocess.run([*self._base, "send-keys", *keys], check=True, timeout=60)

    def lines(self) -> list[str]:
        shown = subprocess.run(
            [*self._base, "capture-pane", "-p"], capture_output=True, text=True, check=False, timeout=60
        )
        return shown.stdout.splitlines()

    def await_line(self, pattern: str) -> list[str]:
        """The screen as soon as a line of it matches."""
        seen: list[str] = []

        def is_there() -> bool:
            seen[:] = self.lines()
            return any(re.search(pattern, line) for line in seen)

        wait_until(is_there, f"{pattern!r} is on the screen", 60)
        return seen

    def end(self) -> None:
        subprocess.run([*self._base, "kill-server"], check=False, capture_output=True, timeout=60)


@pytest.fixture
def terminals(tmp_path: Path, place: tuple[str, str]) -> Iterator[Any]:
    with ExitStack() as stack:

        def start(columns: int, lines: int) -> Tmux:
            terminal = Tmux(tmp_path, place[1], columns, lines)
            stack.callback(terminal.end)
            return terminal

        yield start


def programs(terminal: Tmux) -> list[str]:
    """The names in the table."""
    return [found[1] for line in terminal.lines() if (found := re.match(r"\w{4} +(train-\d)", line))]


@needs_tmux
def test_top_in_tmux_at_three_sizes(terminals: Any, place: tuple[str, str]) -> None:
    with ExitStack() as stack:
        for number in range(6):
            player = Player(place[0], f"train-{number}", gib=12, card=number % 2)
            stack.enter_context(player).ask()
        for columns, height in ((80, 24), (100, 30), (200, 60)):
            terminal = terminals(columns, height)
            terminal.await_line("train-5 .*waiting")
            wait_until(lambda shown=terminal: len(programs(shown)) == 6, "all are on the screen", 60)  # type: ignore[misc]
            lines = terminal.lines()
            assert len(lines) <= height
            headings = [number for number, line in enumerate(lines) if line.rstrip() in (CARD[:12], TWIN[:12])]
            assert len(headings) == 2, lines
            assert all("train-" in lines[number + 1] for number in headings)
            terminal.press("?")
            terminal.await_line("the safe limit")
            terminal.press("x")
            terminal.press("/", "train-5")
            terminal.await_line("filter: train-5_")
            wait_until(lambda shown=terminal: programs(shown) == ["train-5"], "the others are gone", 60)  # type: ignore[misc]
            terminal.press("Enter")
            terminal.await_line("filter 'train-5'")
            terminal.press("Enter")
            terminal.await_line("any other key: back")
            terminal.await_line("train-5")
            terminal.await_line("waits")
            terminal.press("q")
            terminal.await_line("by state")
            terminal.press("q")
            wait_until(lambda shown=terminal: not shown.lines(), "top has ended", 60)  # type: ignore[misc]
