"""The machine of one process, and what performs its decisions."""

import ctypes
from collections.abc import Sequence
from typing import Protocol

from nvshare.client_machine.effects import Effect, EffectKind
from nvshare.client_machine.library import (
    LIBRARY,
    MAX_GPUS,
    NEVER,
    Absence,
    Account,
    AskFate,
    Client,
    Config,
    Gpu,
    News,
    Out,
    Seen,
    Turn,
    TurnState,
    Verdict,
)
from nvshare.client_machine.looks import LookReport


class Effects(Protocol):
    """What a machine tells its process to do. GPUs are named by their index."""

    def send(self, frames: bytes) -> None:
        """One frame or several, to the scheduler."""

    def connect(self) -> None:
        """Then call `connected` or `not_connected`."""

    def disconnect(self) -> None:
        """The scheduler broke the protocol."""

    def gate_moved(self, gpu: int, is_open: bool) -> None:
        """Threads may pass from now on, or must stop."""

    def start_drain(self, gpu: int) -> None:
        """Then call `drained`."""

    def stop_drain(self, gpu: int) -> None:
        """A drain under way has no purpose any more."""

    def move_memory(self, gpu: int, to_host: bool, size: int) -> None:
        """Move at most so many bytes to the host, or to the GPU; then call `moved`, and `room_made` if to the host."""

    def hold_memory(self, gpu: int, size: int) -> None:
        """Hold so many bytes on the host from now on; then call `held`."""

    def watch_changed(self, gpu: int) -> None:
        """`watches` says something new."""

    def let_one(self, gpu: int) -> None:
        """Let one submission through the closed gate; call `let_done` when it has finished, or if there is none."""

    def answer(self, ask: int, granted: int) -> None:
        """A question about budget is answered."""

    def questions_lost(self) -> None:
        """Those that were sent; `ask_fate` says what becomes of them."""

    def joined(self) -> None:
        """It is known whether there is a scheduler: threads may allocate."""

    def say(self, notices: int) -> None:
        """Lines for the user; the SAY_ bits of ClientDo."""


class ClientMachine:
    """One process's machine, its accounts, and what its threads have left for it."""

    def __init__(
        self,
        now: int,
        gpus: Sequence[tuple[bytes, int]],
        surroundings: Effects,
        config: Config | None = None,
        *,
        oversubscribe: bool = True,
    ) -> None:
        """`gpus`: of each its UUID and its size. `oversubscribe`: it may allocate more than a card has for it."""
        config = config or Config()
        self._surroundings = surroundings
        self._client = Client()
        self._at = ctypes.pointer(self._client)
        self._out = self._client.out
        self._effect = Effect()
        self._is_performing = False
        LIBRARY.nvs_client_init(self._at, config, now)
        for uuid, size in gpus:
            LIBRARY.nvs_client_add_gpu(self._at, uuid, 0, size)
        count = len(gpus)
        self._seen_array = (Seen * count)()
        self.seen: list[Seen] = [self._seen_array[i] for i in range(count)]
        self.accounts = [Account.of(size, config.own_limit, oversubscribe=oversubscribe) for _, size in gpus]
        self.gpus: list[Gpu] = [self._client.gpus[i] for i in range(count)]
        self.turns: list[Turn] = [gpu.turn for gpu in self.gpus]

    @property
    def is_registered(self) -> bool:
        return bool(self._client.is_registered)

    @property
    def ask_fate(self) -> AskFate:
        """What becomes of a question about budget that has no answer yet."""
        return AskFate(LIBRARY.nvs_client_ask_fate(self._at))

    @property
    def is_hung(self) -> bool:
        """The scheduler does not answer."""
        return bool(self._client.is_hung)

    def state(self, gpu: int) -> TurnState:
        return TurnState(self.turns[gpu].state)

    def watches(self, gpu: int) -> bool:
        """Idleness is to be told: others wait for what this process holds."""
        return bool(LIBRARY.nvs_client_watches(self._at, gpu))

    def next_deadline(self) -> int | None:
        """When to call `tick` at the latest."""
        when: int = LIBRARY.nvs_client_next(self._at)
        return None if when == NEVER else when

    # What happens to it.

    def tick(self, now: int) -> None:
        if LIBRARY.nvs_client_tick(self._at, now, self._seen_array):
            self._perform()

    def receive(self, now: int, frame: bytes) -> None:
        """One whole frame."""
        gpu = frame[3] if len(frame) > 3 else MAX_GPUS
        account = self.accounts[gpu] if gpu < len(self.accounts) else None
        if LIBRARY.nvs_client_receive(self._at, now, frame, len(frame), account):
            self._perform()

    def connected(self) -> None:
        LIBRARY.nvs_client_connected(self._at)
        self._perform()

    def not_connected(self, now: int, absence: Absence = Absence.ABSENT) -> None:
        LIBRARY.nvs_client_not_connected(self._at, now, absence)
        self._perform()

    def lost(self, now: int) -> None:
        LIBRARY.nvs_client_lost(self._at, now)
        self._perform()

    def drained(self, now: int, gpu: int, *, again: bool) -> None:
        if LIBRARY.nvs_client_drained(self._at, now, gpu, again):
            self._perform()

    def idle(self, gpu: int) -> None:
        if LIBRARY.nvs_client_idle(self._at, gpu):
            self._perform()

    def busy(self, gpu: int) -> None:
        if LIBRARY.nvs_client_busy(self._at, gpu):
            self._perform()

    def use_collectives(self) -> None:
        if LIBRARY.nvs_job_use_collectives(self._at):
            self._perform()

    def let_done(self, gpu: int) -> None:
        if LIBRARY.nvs_job_let_done(self._at, gpu):
            self._perform()

    def moved(self, gpu: int, *, to_host: bool, moved: int, took_ns: int) -> None:
        if LIBRARY.nvs_tell_moved(self._at, gpu, to_host, moved, took_ns):
            self._perform()

    def room_made(self, gpu: int, left: int) -> None:
        if LIBRARY.nvs_tell_room_made(self._at, gpu, left):
            self._perform()

    def working_set(self, gpu: int, used: int | None) -> None:
        if LIBRARY.nvs_tell_working_set(self._at, gpu, used is not None, used or 0):
            self._perform()

    def held(self, gpu: int, held: int) -> None:
        if LIBRARY.nvs_tell_held(self._at, gpu, held):
            self._perform()

    def mover(self, gpu: int, state: int) -> None:
        if LIBRARY.nvs_tell_mover(self._at, gpu, state):
            self._perform()

    def slowed(self, now: int, gpu: int, factor: int) -> None:
        if LIBRARY.nvs_tell_slowed(self._at, now, gpu, factor):
            self._perform()

    def gpu_time(self, gpu: int, first: int, count: int, busy: int) -> None:
        if LIBRARY.nvs_tell_gpu_time(self._at, gpu, LookReport.of(first, count, busy)):
            self._perform()

    def ask(self, gpu: int, ask: int, need: int) -> None:
        if LIBRARY.nvs_client_ask(self._at, gpu, ask, need):
            self._perform()

    # What its threads do; `tick` afterwards.

    def reserve(self, gpu: int, size: int, *, swappable: bool = True) -> Verdict:
        self.accounts[gpu].contexts = self.seen[gpu].contexts or 1
        verdict = self.accounts[gpu].reserve(size, swappable=swappable)
        if verdict is Verdict.CHARGED:
            self._changed(gpu)
        return verdict

    def free(self, gpu: int, size: int, *, swappable: bool = True) -> None:
        self.accounts[gpu].free(size, swappable=swappable)
        self._changed(gpu)

    def set_contexts(self, gpu: int, contexts: int) -> None:
        self.seen[gpu].contexts = contexts
        self._changed(gpu)

    def _changed(self, gpu: int) -> None:
        is_much = LIBRARY.nvs_account_is_much_news(self.accounts[gpu])
        self.seen[gpu].news = News.MUCH if is_much else News.SOME

    # What comes out of it.

    def _perform(self) -> None:
        """All that is to be done, in the order of the library. What an effect adds is performed after it."""
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while LIBRARY.nvs_effects_next(self._at, True, self._effect):
                self._perform_one(EffectKind(self._effect.kind), self._effect.gpu)
        finally:
            self._is_performing = False

    def _perform_one(self, kind: EffectKind, gpu: int) -> None:
        out, surroundings = self._out, self._surroundings
        match kind:
            case EffectKind.UNANSWERED:
                surroundings.questions_lost()
            case EffectKind.SAY:
                surroundings.say(self._effect.notices)
            case EffectKind.DISCONNECT:
                surroundings.disconnect()
            case EffectKind.ANSWER:
                surroundings.answer(out.ask, out.granted)
            case EffectKind.SEND:
                self._send()
            case EffectKind.AWAY:
                pass  # Gates are open; allocations wait for `joined`.
            case EffectKind.JOINED:
                surroundings.joined()
            case EffectKind.CONNECT:
                surroundings.connect()
            case _:
                self._perform_at(kind, gpu)

    def _perform_at(self, kind: EffectKind, gpu: int) -> None:
        surroundings = self._surroundings
        match kind:
            case EffectKind.STOP_DRAIN:
                surroundings.stop_drain(gpu)
            case EffectKind.CLOSE | EffectKind.OPEN:
                surroundings.gate_moved(gpu, kind is EffectKind.OPEN)
            case EffectKind.DRAIN:
                surroundings.start_drain(gpu)
            case EffectKind.WATCH:
                surroundings.watch_changed(gpu)
            case EffectKind.LET_ONE:
                surroundings.let_one(gpu)
            case EffectKind.MOVE_OUT | EffectKind.MOVE_IN:
                surroundings.move_memory(gpu, kind is EffectKind.MOVE_OUT, self.gpus[gpu].move_bytes)
            case EffectKind.HOLD:
                surroundings.hold_memory(gpu, self.gpus[gpu].keep_bytes)
            case EffectKind.FIGURES:
                self.seen[gpu].news = 0
                LIBRARY.nvs_client_figures(self._at, gpu, self.accounts[gpu], self.seen[gpu].contexts)

    def _send(self) -> None:
        frames = ctypes.string_at(ctypes.addressof(self._out) + Out.frames.offset, self._out.frames_bytes)
        self._out.frames_bytes = 0
        if frames:
            self._surroundings.send(frames)
