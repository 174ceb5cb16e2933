"""Shows the status continuously: on a terminal with keys, or as plain lines."""

import sys
import threading
import time
from collections.abc import Callable

import click
from msgspec.structs import replace
from rich.console import Console
from rich.live import Live

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.ctl.keyboard import Keyboard
from nvshare.cli.ctl.render import step_line
from nvshare.cli.ctl.top_rows import Row, next_sort, plain_lines
from nvshare.cli.ctl.top_users import user_lines
from nvshare.cli.ctl.top_view import View, screen, shown_rows
from nvshare.printable import printable

Ask = Callable[[], admin.Status]
"""Gets a new status from the scheduler, or raises the reason why there is none."""
Tell = Callable[[str], admin.Story]
"""Gets the story of a client."""
TROUBLES = (operator_client.UnreachableError, operator_client.RefusedError, admin.AdminError)


def print_lines(ask: Ask, view: View, delay: float, count: int | None) -> None:
    looks = 0
    while True:
        answer = ask()
        stamp = time.strftime("%H:%M:%S", time.localtime(answer.now))
        shown = shown_rows(answer, view)
        lines = user_lines(shown, view.sort) if shown and view.by_user else plain_lines(shown)
        for line in lines or ["no clients"]:
            click.echo(f"{stamp}  {line}")
        sys.stdout.flush()
        looks += 1
        if looks == count:
            return
        time.sleep(delay)


class Top:
    """The live view: one thread asks the scheduler, this one draws and reads the keyboard."""

    def __init__(self, ask: Ask, tell: Tell, view: View, delay: float, count: int | None) -> None:
        self._ask = ask
        self._tell = tell
        self._delay = delay
        self._count = count
        self._console = Console()
        self._keyboard = Keyboard()
        is_ascii = not (self._console.encoding or "").lower().startswith("utf")
        self._view = replace(view, is_ascii=is_ascii)
        self._status = self._ask()
        self._trouble = ""
        self._looks = 1
        self._ends = threading.Event()

    def run(self) -> None:
        with self._keyboard, Live(console=self._console, screen=True, auto_refresh=False) as live:
            threading.Thread(target=self._keep_asking, daemon=True).start()
            try:
                while not self._ends.is_set():
                    size = self._console.size
                    view = replace(self._view, trouble=self._trouble)
                    live.update(screen(self._status, view, width=size.width, height=size.height), refresh=True)
                    for key in self._keyboard.wait():
                        self._press(key)
                    if self._count is not None and self._looks >= self._count:
                        break
            finally:
                self._ends.set()

    def _keep_asking(self) -> None:
        while not self._ends.wait(self._delay):
            if self._view.is_paused:
                continue
            try:
                self._status, self._trouble = self._ask(), ""
            except TROUBLES as error:
                self._trouble = str(error)
            self._looks += 1
            self._keyboard.nudge()

    def _press(self, key: str) -> None:
        if self._view.is_help:
            self._view = replace(self._view, is_help=False)
        elif self._view.story is not None:
            self._view = _scrolled(self._view, key, self._console.size.height)
        elif self._view.typing is not None:
            self._type(key, self._view.typing)
        elif key == "q":
            self._ends.set()
        elif key == "enter" and not self._view.by_user:
            self._open_story()
        else:
            self._view = _pressed(self._view, key, shown_rows(self._status, self._view), self._console.size.height)

    def _open_story(self) -> None:
        shown = shown_rows(self._status, self._view)
        if not shown:
            return
        row = shown[_index(shown, self._view)]
        try:
            story = self._tell(admin.client_name(row.client.id))
        except TROUBLES as error:
            self._trouble = str(error)
            return
        lines = (printable(story.summary), "", *(step_line(step) for step in story.steps))
        self._view = replace(self._view, chosen=row.key, story=lines, story_end=0)

    def _type(self, key: str, typed: str) -> None:
        if key == "enter":
            self._view = replace(self._view, wanted=typed, typing=None)
        elif key == "escape":
            self._view = replace(self._view, typing=None)
        elif key == "backspace":
            self._view = replace(self._view, typing=typed[:-1])
        elif len(key) == 1:
            self._view = replace(self._view, typing=typed + key)


def _index(shown: list[Row], view: View) -> int:
    """Where the chosen row is now; the first if there is none, or if it is gone."""
    return next((number for number, row in enumerate(shown) if row.key == view.chosen), 0)


def _scrolled(view: View, key: str, height: int) -> View:
    """The story after a key."""
    assert view.story is not None
    moves = {"up": 1, "down": -1, "page up": height // 2, "page down": -height // 2, "home": 1 << 30, "end": -1 << 30}
    if key not in moves:
        return replace(view, story=None)
    return replace(view, story_end=max(0, min(len(view.story), view.story_end + moves[key])))


def _pressed(view: View, key: str, shown: list[Row], height: int) -> View:
    """The view after a key; unknown keys change nothing."""
    count = len(shown)
    moves = {"up": -1, "down": 1, "page up": -height // 2, "page down": height // 2, "home": -count, "end": count}
    if key in moves and shown:
        # The first key only shows where the user is.
        move = moves[key] if view.chosen is not None or key in ("end", "page down") else 0
        return replace(view, chosen=shown[max(0, min(count - 1, _index(shown, view) + move))].key)
    match key:
        case "p" | " ":
            return replace(view, is_paused=not view.is_paused)
        case "s":
            return replace(view, sort=next_sort(view.sort))
        case "r":
            return replace(view, is_reversed=not view.is_reversed)
        case "u":
            return replace(view, by_user=not view.by_user)
        case "?":
            return replace(view, is_help=True)
        case "/":
            return replace(view, typing=view.wanted)
        case _:
            return view
