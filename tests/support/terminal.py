"""A program in a terminal (a pty), and what it has drawn."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"


class Terminal:
    """The program begins at once. `text` is what came without escape sequences, `raw` all of it."""

    def __init__(self, *command: str, columns: int = 110, lines: int = 30, **variables: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", **variables}
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.text = ""
        self.raw = ""

    def read_until(self, pattern: str, seconds: float = 60) -> str:
        """What came until the pattern did; only what comes after counts for the next one."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text)):
            ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{pattern!r} did not come; the screen: {self.text[-3000:]!r}"
            came = os.read(self._master, 65536).decode(errors="replace")
            self.raw += came
            self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", came)
        seen, self.text = self.text, self.text[found.end() :]
        return seen

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        code = self.process.wait(60)
        os.close(self._master)
        return code
