"""A driver that loads a module for as long as the test wants, and so has the lock of a context.

A named pipe as the file of the module makes the load last until the test ends it. So what a test sees before that was
answered meanwhile, however slow the machine is.
"""

import errno
import os
from pathlib import Path
from typing import Self

from libnvshare.programs import FUTEX, Program
from support.waiting import wait_until

INVALID_IMAGE = 200


class Pipe:
    """A named pipe: who reads it waits until the test lets it go on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pipe = -1
        os.mkfifo(path)

    def is_read(self) -> bool:
        try:
            self.pipe = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        return self.pipe >= 0

    def let_end(self) -> None:
        os.close(self.pipe)
        self.pipe = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pipe >= 0:
            self.let_end()


class Load(Pipe):
    """The load of a module in a thread of the program: from `begin` to `end` it has the lock of the first context."""

    def __init__(self, directory: Path, *, has_looks: bool) -> None:
        super().__init__(directory / "module")
        self.has_looks = has_looks

    @property
    def environment(self) -> dict[str, str]:
        """Without looks at GPU time, the helper calls the driver only for what the test sends. With them, which is the
        default, it asks about a stream each millisecond."""
        looks = str(int(self.has_looks))
        return {"LIB_CLIENT_MODULE": str(self.path), "NVSHARE_SIM_MODULE_LOAD": "1us", "NVSHARE_GPU_TIME": looks}

    def begin(self, program: Program) -> None:
        program.say("aside-load 0")
        wait_until(self.is_read, "the driver loads the module")

    def end(self, program: Program) -> None:
        self.let_end()
        assert program.answer() == [str(INVALID_IMAGE)]


def helper_waits(program: Program) -> bool:
    """Whether the library's helper thread waits for a lock, which no lock of the library makes it do."""
    for task in Path(f"/proc/{program.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "nvshare":
            return (task / "syscall").read_text().startswith(f"{FUTEX} ")
    return False
