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
from nvshare.cli.ctl.top_view import View, next_sort, plain_lines, rows, screen

Ask = Callable[[], admin.Status]
"""Gets a new status from the scheduler, or raises the reason why there is none."""


def print_lines(ask: Ask, view: View, delay: float, count: int | None) -> None:
    looks = 0
    while True:
        answer = ask()
        stamp = time.strftime("%H:%M:%S", time.localtime(answer.now))
        for line in plain_lines(answer, view) or ["no clients"]:
            click.echo(f"{stamp}  {line}")
        sys.stdout.flush()
        looks += 1
        if looks == count:
            return
        time.sleep(delay)


class Top:
    """The live view: one thread asks the scheduler, this one draws and reads the keyboard."""

    def __init__(self, ask: Ask, view: View, delay: float, count: int | None) -> None:
        self._ask = ask
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
            except (operator_client.UnreachableError, operator_client.RefusedError, admin.AdminError) as error:
                self._trouble = str(error)
            self._looks += 1
            self._keyboard.nudge()

    def _press(self, key: str) -> None:
        if self._view.is_help:
            self._view = replace(self._view, is_help=False)
        elif self._view.typing is not None:
            self._type(key, self._view.typing)
        elif key == "q":
            self._ends.set()
        else:
            self._view = _pressed(self._view, key, len(rows(self._status, self._view)), self._console.size.height)

    def _type(self, key: str, typed: str) -> None:
        if key == "enter":
            self._view = replace(self._view, wanted=typed, typing=None, offset=0)
        elif key == "escape":
            self._view = replace(self._view, typing=None)
        elif key == "backspace":
            self._view = replace(self._view, typing=typed[:-1])
        elif len(key) == 1:
            self._view = replace(self._view, typing=typed + key)


def _pressed(view: View, key: str, count: int, height: int) -> View:
    """The view after a key; unknown keys change nothing."""
    moves = {"up": -1, "down": 1, "page up": -height // 2, "page down": height // 2, "home": -count, "end": count}
    if key in moves:
        return replace(view, offset=max(0, min(count - 1, view.offset + moves[key])))
    match key:
        case "p" | " ":
            return replace(view, is_paused=not view.is_paused)
        case "s":
            return replace(view, sort=next_sort(view.sort), offset=0)
        case "r":
            return replace(view, is_reversed=not view.is_reversed, offset=0)
        case "?":
            return replace(view, is_help=True)
        case "/":
            return replace(view, typing=view.wanted)
        case _:
            return view
