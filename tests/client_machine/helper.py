"""A process around libnvshare's client machine, for its tests."""

from nvshare.client_machine.library import Absence, ClientDo, Config
from nvshare.client_machine.machine import ClientMachine
from nvshare.wire import messages as wire
from nvshare.wire.codec import Decoder, encode

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
GIB = 1 << 30


class Helper:
    """A process with one GPU, connected and registered; what its machine wants is noted."""

    def __init__(
        self, version: int = wire.PROTOCOL_VERSION, *, is_answered: bool = True, config: Config | None = None
    ) -> None:
        self.now = SECOND
        self.sent: list[wire.Message] = []
        self.done: list[str] = []
        self.moves: list[tuple[str, int]] = []
        self.machine = ClientMachine(self.now, [(bytes(16), 16 * GIB)], self, config)
        self.is_away = False
        self.tick()
        if is_answered:
            self.hear(wire.SchedOn(0, version, 1))
        self.sent.clear()
        self.done.clear()

    def tick(self, later: int = 0) -> None:
        self.now += later
        self.machine.tick(self.now)

    def pass_time(self, time_ns: int) -> None:
        """As the helper thread does: a step at each deadline."""
        end = self.now + time_ns
        while (deadline := self.machine.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.tick()
        self.now = end

    def hear(self, message: wire.Message) -> None:
        self.machine.receive(self.now, encode(message))

    def want(self) -> None:
        self.machine.seen[0].waiters = 1
        self.tick()

    def count(self, kind: type[wire.Message]) -> int:
        return sum(isinstance(message, kind) for message in self.sent)

    # client_machine.effects.Effects

    def send(self, frames: bytes) -> None:
        self.sent += Decoder(wire.FROM_CLIENT).feed(frames)

    def connect(self) -> None:
        if self.is_away:
            self.machine.not_connected(self.now, Absence.AWAY)
        else:
            self.machine.connected()

    def disconnect(self) -> None:
        self.done.append("disconnect")

    def gate_moved(self, gpu: int, is_open: bool) -> None:
        self.done.append("open" if is_open else "close")

    def start_drain(self, gpu: int) -> None:
        self.done.append("drain")

    def stop_drain(self, gpu: int) -> None:
        self.done.append("stop draining")

    def move_memory(self, gpu: int, to_host: bool, size: int) -> None:
        self.moves.append(("out" if to_host else "in", size))

    def hold_memory(self, gpu: int, size: int) -> None:
        self.moves.append(("hold", size))

    def watch_changed(self, gpu: int) -> None:
        self.done.append("watch")

    def answer(self, ask: int, granted: int) -> None:
        self.done.append(f"{ask}: {granted}")

    def questions_lost(self) -> None:
        self.done.append("unanswered")

    def let_one(self, gpu: int) -> None:
        self.done.append("let one through")

    def joined(self) -> None:
        self.done.append("joined")

    def say(self, notices: int) -> None:
        self.done.append("hung" if notices & ClientDo.SAY_HUNG else "say")
