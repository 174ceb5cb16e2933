"""Plays one side of a recorded conversation against today's other side.

Numbers that the other side chooses (locks, questions) are replaced by today's. When something is said may differ; what
was said, and how each command of the programs ends, may not. Recalls are answered when they come, as any library does:
how many are needed is the scheduler's business."""

import os
import select
import socket
from collections.abc import Callable
from typing import TypeVar

import msgspec

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import Program, Programs
from nvshare.quantity import parse_bytes
from nvshare.unix_socket import peer_credentials
from nvshare.wire import messages as wire
from upgrade import record
from upgrade.conversation import Line, assert_understood, encode, frames, known_lengths, message_of
from upgrade.todays_scheduler import TodaysScheduler

PATIENCE_S = 60.0
SETTLED = 0x5E77
M = TypeVar("M", bound=wire.Message)


class OldLibrary:
    """A library of an old version, connected to today's scheduler. It says what it said then."""

    def __init__(self, path: str, version: int, together: "list[OldLibrary]") -> None:
        """`together`: all libraries of the conversation. Each answers recalls while another one waits."""
        self._version = version
        self._together = together
        together.append(self)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._path, self._rest = path, b""
        self._heard: list[wire.Message] = []
        self._used: dict[int, int] = {}
        self._budget: dict[int, int] = {}
        self._needs: dict[int, int] = {}
        self._locks: dict[int, int] = {}

    def leave(self) -> None:
        """Its scheduler was killed."""
        self._together.remove(self)
        self._socket.close()

    def say(self, message: wire.Message) -> None:
        match message:
            case wire.Register():
                if self not in self._together:
                    self._connect_again()
                message = self._claim(message)
            case wire.BudgetReturn():
                return  # a recall is answered when it comes
            case wire.LockReleased():
                message = msgspec.structs.replace(message, lock=self._locks[message.lock])
            case wire.BudgetAsk():
                self._needs[message.ask] = message.need
            case wire.MemUpdate() | wire.ReqLock():
                self._used[message.gpu] = message.swappable + message.unswappable
        self._socket.sendall(encode(message))

    def _connect_again(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(self._path)
        self._rest, self._heard = b"", []
        self._together.append(self)

    def _claim(self, message: wire.Register) -> wire.Register:
        """The lock that it holds has today's number. Only programs with one GPU hold one when they register."""
        if len(message.entries) > 1:
            return message
        (entry,) = message.entries
        self._used[0], self._budget[0] = entry.swappable + entry.unswappable, entry.budget
        claimed = msgspec.structs.replace(entry, lock=self._locks.get(entry.lock, 0))
        self._locks[entry.lock] = claimed.lock
        return msgspec.structs.replace(message, entries=(claimed,))

    def expect(self, then: wire.Message) -> None:
        """Today's scheduler says the like of what the old one said then."""
        match then:
            case wire.BudgetRecall():
                return
            case wire.LockOk():
                self._locks[then.lock] = self._next(wire.LockOk, lambda _: True).lock
            case wire.DropLock():
                self._next(wire.DropLock, lambda drop: drop.lock == self._locks[then.lock])
            case wire.UpdateLimit():
                self._next(wire.UpdateLimit, lambda update: update == then)
            case wire.Budget():
                now = self._next(wire.Budget, lambda budget: budget.ask == then.ask)
                need = self._needs.get(then.ask, 0)
                assert (now.budget >= need) == (then.budget >= need), f"{now} instead of {then}"
                assert now.others == then.others
            case wire.Contended():
                self._next(wire.Contended, lambda contended: contended == then)
            case _:
                self._next(type(then), lambda _: True)

    def _next(self, kind: type[M], such: Callable[[M], bool]) -> M:
        while True:
            for message in self._heard:
                if isinstance(message, kind) and such(message):
                    self._heard.remove(message)
                    return message
            readable, _, _ = select.select(self._together, [], [], PATIENCE_S)
            assert readable, f"no {kind.__name__}; the scheduler said {self._heard}"
            for library in readable:
                library.receive()

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> None:
        data = self._socket.recv(1 << 16)
        assert data, f"today's scheduler hung up on version {self._version}; it had said {self._heard}"
        found, self._rest = frames(self._rest + data)
        for frame in found:
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        assert_understood(frame, self._version, by_library=True)
        if frame[2] not in known_lengths(self._version):
            return
        message = message_of(frame)
        if isinstance(message, wire.BudgetRecall):
            used = self._used.get(message.gpu, 0)
            budget = min(self._budget.get(message.gpu, wire.UNLIMITED), max(used, message.keep))
            self._budget[message.gpu] = budget
            self._socket.sendall(encode(wire.BudgetReturn(message.gpu, message.serial, budget, used)))
            return
        if isinstance(message, wire.Budget) and message.serial:
            self._budget[message.gpu] = message.budget
        self._heard.append(message)


def old_libraries(lines: list[Line], scheduler: TodaysScheduler, version: int) -> None:
    """The libraries' side of the conversation, against today's scheduler."""
    libraries: dict[str, OldLibrary] = {}
    together: list[OldLibrary] = []
    for line in lines:
        if line.sign == ">" and line.who not in libraries:
            libraries[line.who] = OldLibrary(scheduler.path, version, together)
        if line.who == "scheduler":
            for library in list(together):
                library.leave()
            scheduler.restart()
        elif line.who == "operator" and line.text.startswith(record.SCHEDULING):
            scheduler.switch(on=line.text.endswith("on"))
        elif line.who == "operator":
            scheduler.set_limit(f"run/{os.getuid()}-{record.RUN_ID}", parse_bytes(line.text))
        elif line.sign == ">":
            libraries[line.who].say(line.message)
        elif line.sign == "<":
            libraries[line.who].expect(line.message)


class TodaysProgram:
    """A program under today's library, and the old scheduler's end of its connection."""

    def __init__(self, program: Program, scheduler: FakeScheduler, arrived: dict[int, LibraryConnection]) -> None:
        self._program, self._scheduler, self._arrived = program, scheduler, arrived
        self._peer: LibraryConnection | None = None
        self._heard: list[wire.Message] = []
        self._results: list[str] = []
        self._told: tuple[int, int, int] | None = None
        self._asks: dict[int, int] = {}
        self._is_told = False
        """It may not have taken all messages yet."""

    @property
    def peer(self) -> LibraryConnection:
        """Its connection; those of other programs that come first are kept for them."""
        pid = self._program.process.pid
        while self._peer is None:
            if pid not in self._arrived:
                peer = self._scheduler.accept(PATIENCE_S)
                self._arrived[_pid_of(peer)] = peer
            self._peer = self._arrived.pop(pid, None)
        return self._peer

    def lose_scheduler(self, version: int) -> None:
        self.check_frames(version)
        self.peer.close()
        self._peer, self._heard, self._is_told = None, [], False

    def command(self, text: str) -> None:
        """After all messages, as when it was recorded: its threads might do more, or less, before SCHED_ON."""
        self.check_results()
        if self._is_told:
            self.peer.send(wire.BudgetRecall(0, SETTLED, wire.UNLIMITED))  # of nothing
            self._next(wire.BudgetReturn, lambda answer: answer.serial == SETTLED)
            self._is_told = False
        self._program.say(text)

    def result(self, text: str) -> None:
        """Checked before the next command: the program may be served later than then."""
        self._results.append(text)

    def check_results(self) -> None:
        while self._results:
            assert self._program.answer(PATIENCE_S)[0] == self._results.pop(0)

    def say(self, message: wire.Message) -> None:
        if isinstance(message, wire.Budget) and message.ask:
            message = msgspec.structs.replace(message, ask=self._asks[message.ask])
        if isinstance(message, wire.DropLock):
            self.check_results()  # what it did with this lock then, it has done now
        self.peer.send(message)
        self._is_told = True

    def expect(self, then: wire.Message) -> None:
        """Today's library says the like of what the old one said then."""
        match then:
            case wire.BudgetAsk():
                self._asks[then.ask] = self._next(wire.BudgetAsk, lambda ask: ask.need == then.need).ask
            case wire.MemUpdate() if self._told == _memory(then):
                return  # another message has said so already
            case wire.WorkingSet() | wire.Slowed() | wire.GpuTime():
                return  # sent when something was measured, which is not the same twice
            case wire.Register():
                self._next(wire.Register, lambda now: _claims(now) == _claims(then))
            case _:
                self._next(type(then), lambda now: now == then)

    def _next(self, kind: type[M], such: Callable[[M], bool]) -> M:
        while True:
            for message in self._heard:
                if isinstance(message, kind) and such(message):
                    self._heard.remove(message)
                    return message
            found = self.peer.next(PATIENCE_S)
            assert found is not None, f"no {kind.__name__}; the library said {self._heard}"
            self._heard.append(found)
            self._told = _memory(found) or self._told

    def check_frames(self, version: int) -> None:
        for frame in frames(self.peer.data)[0]:
            assert_understood(frame, version, by_library=False)


def _pid_of(peer: LibraryConnection) -> int:
    return peer_credentials(peer.connection).pid


def _memory(message: wire.Message) -> tuple[int, int, int] | None:
    """What a message says of the process's contexts and memory."""
    said = message.entries[0] if isinstance(message, wire.Register) else message
    if isinstance(said, (wire.GpuEntry, wire.MemUpdate, wire.ReqLock)):
        return said.contexts, said.swappable, said.unswappable
    return None


def _claims(register: wire.Register) -> tuple[int, list[tuple[int, ...]]]:
    """What must be the same in every version."""
    entries: list[tuple[int, ...]] = [
        (one.state, one.lock, one.swappable, one.unswappable, one.limit) for one in register.entries
    ]
    return register.own_limit, entries


def old_scheduler(lines: list[Line], programs: Programs, scheduler: FakeScheduler, version: int) -> None:
    """The scheduler's side of the conversation, with programs under today's library."""
    running: dict[str, TodaysProgram] = {}
    arrived: dict[int, LibraryConnection] = {}
    for line in lines:
        if line.who == "operator":
            continue
        if line.who == "scheduler":
            for program in running.values():
                program.lose_scheduler(version)
            continue
        if line.who not in running:
            running[line.who] = TodaysProgram(programs.start(**record.environment_of(line.who)), scheduler, arrived)
        program = running[line.who]
        match line.sign:
            case "$":
                program.command(line.text)
            case "=":
                program.result(line.text)
            case ">":
                program.expect(line.message)
            case "<":
                program.say(line.message)
    for program in running.values():
        program.check_results()
        program.check_frames(version)
