"""Clients as docs/protocol.md describes them, for driving the core: what they hear, what they then believe and say."""

from collections import deque
from dataclasses import dataclass, field

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import NO_MEMORY, Memory


@dataclass
class View:
    """What a client believes about one GPU."""

    lock: int = 0
    draining: int = 0
    is_waiting: bool = False
    has_work: bool = False
    contended: bool = False
    is_idle: bool = False
    memory: Memory = NO_MEMORY
    old_locks: list[int] = field(default_factory=list)


class Peer:
    """A client of the scheduler. What it says waits in `said`, what it is told in `told`, each in order."""

    def __init__(self, client: int, gpus: list[str]) -> None:
        self.id = client
        self.views = {gpu: View() for gpu in gpus}
        self.told: deque[ac.Action] = deque()
        self.said: deque[ev.Event] = deque()
        self.is_stopped = False
        """A stopped process (SIGSTOP): hears nothing and says nothing."""

    # What it does of its own accord.

    def want(self, gpu: str) -> None:
        view = self.views[gpu]
        view.has_work = True
        if view.lock and view.is_idle:
            view.is_idle = False
            self.said.append(ev.WorkResumed(self.id, gpu))
        elif not view.lock and not view.draining and not view.is_waiting:
            view.is_waiting = True
            self.said.append(ev.LockRequested(self.id, gpu, view.memory))

    def resize(self, gpu: str, memory: Memory) -> None:
        self.views[gpu].memory = memory
        self.said.append(ev.MemoryChanged(self.id, gpu, memory))

    def finish_work(self, gpu: str) -> None:
        """All that was submitted is done."""
        view = self.views[gpu]
        view.has_work = False
        self._say_idle(gpu)

    def drain(self, gpu: str) -> None:
        """The last work before a drop has finished."""
        view = self.views[gpu]
        if view.draining:
            self.said.append(ev.LockReleased(self.id, gpu, view.draining, view.has_work))
            view.old_locks.append(view.draining)
            view.draining, view.is_waiting = 0, view.has_work

    def give_up(self, gpu: str) -> None:
        """Its last context is gone."""
        view = self.views[gpu]
        if view.lock:
            self.said.append(ev.LockReleased(self.id, gpu, view.lock, False))
            view.old_locks.append(view.lock)
            view.lock, view.has_work, view.is_idle = 0, False, False

    # What it hears.

    def hear(self) -> None:
        """Take in the next message."""
        message = self.told.popleft()
        match message:
            case ac.GiveLock(gpu=gpu, lock=lock):
                view = self.views[gpu]
                view.old_locks.append(view.draining)
                view.lock, view.draining, view.is_waiting, view.is_idle = lock, 0, False, False
                view.contended = message.contended
                self._say_idle(gpu)
            case ac.DropLock(gpu=gpu, lock=lock):
                view = self.views[gpu]
                if view.lock == lock:
                    view.lock, view.draining, view.is_idle = 0, lock, False
            case ac.TellContended(gpu=gpu):
                self.views[gpu].contended = message.contended
                self.views[gpu].is_idle = False
                self._say_idle(gpu)
            case ac.SwitchScheduling():
                for gpu, view in self.views.items():
                    wanted = view.has_work
                    self.views[gpu] = View(memory=view.memory)
                    if message.on and wanted:
                        self.want(gpu)
            case _:
                pass

    def _say_idle(self, gpu: str) -> None:
        view = self.views[gpu]
        if view.lock and view.contended and not view.has_work and not view.is_idle:
            view.is_idle = True
            self.said.append(ev.WorkFinished(self.id, gpu))
