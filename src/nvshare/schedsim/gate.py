"""The interfaces of a gate, its program and the simulation, and a gate that holds nothing back. schedsim.gates has the
others."""

from typing import Protocol

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import Claim, Memory


class Gated(Protocol):
    """The program behind a gate."""

    key: int
    name: str
    group: str
    gpus: list[str]
    memory: int
    working_set: int | None
    """What it uses of its memory; None: all of it."""
    card_sizes: list[int]
    may_oversubscribe: bool
    """It may allocate more than a card has for it."""
    priority: int
    weight: int
    stands_at: int | None
    """The GPU at whose closed gate its thread waits, as an index."""

    def has_work(self, gpu: int) -> bool:
        """It computes there, or waits to."""

    def gate_opened(self, gpu: int) -> None:
        """Work that waits may begin."""

    def gate_closed(self, gpu: int) -> None:
        """Work must stop."""

    def push_out(self, gpu: int, size: int) -> int | None:
        """Memory begins to move to the host; when that will have taken place. None: nothing moves."""

    def pushed_out(self, gpu: int) -> tuple[int, int]:
        """How much has moved to the host, and how long that took."""

    def left_on_card(self, gpu: int) -> int:
        """What is on the card of its memory."""

    def hold_ns(self, gpu: int, size: int) -> int:
        """How long it takes until so much of its memory is kept on the host."""

    def hold(self, gpu: int, size: int) -> None:
        """So much of it is kept on the host from now on."""


class Simulation(Protocol):
    """What a gate needs of the simulation that it is part of."""

    now: int

    def post(self, event: ev.Event) -> None:
        """Tell the scheduler something, after all that was said before."""

    def call_at(self, when: int, call: tuple[int, str]) -> None:
        """Call a method of the gate of the program with this key later."""


class Gate:
    """No gate: always open. The other gates are made of this one. GPUs are indices into those of the program."""

    def __init__(self, program: Gated, machine: Simulation) -> None:
        self._program = program
        self._machine = machine

    def is_open(self, gpu: int) -> bool:
        return True

    def start(self) -> None:
        """The program is there."""
        self._register(Memory(swappable=self._program.memory, contexts=1))

    def allocate(self) -> bool:
        """The program allocates its memory; False: that is refused."""
        return True

    def want(self, gpu: int) -> None:
        """There is work from now on."""

    def rest(self, gpu: int) -> None:
        """There is none any more."""

    def hear(self, action: ac.Action) -> None:
        """What the scheduler says."""

    def used(self) -> None:
        """The program has used all that it will use of its memory."""

    def loaded(self, gpu: int, moved: int, took_ns: int) -> None:
        """So much memory came back to the card in bulk, and work begins."""

    def _register(self, memory: Memory) -> None:
        program = self._program
        cards = zip(program.gpus, program.card_sizes, strict=True)
        claims = tuple(Claim(gpu, size, memory=memory) for gpu, size in cards)
        self._machine.post(ev.ClientRegistered(program.key, program.group, program.name, program.name, claims))
