"""The machine of one process, and what performs its decisions."""

import ctypes
from collections.abc import Sequence

from nvshare.client_machine.effects import Effect, EffectKind, Effects
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
from nvshare.client_machine.looks import LookFacts, Unfinished


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
        """The scheduler wants to know when the process is idle, because the GPU is contended."""
        return bool(LIBRARY.nvs_client_watches(self._at, gpu))

    def looker_wants_watch(self, gpu: int, facts: LookFacts) -> bool:
        """The looker wants to know when the process is idle: no look is made while nothing is submitted."""
        return bool(LIBRARY.nvs_looker_wants_watch(self._at, gpu, facts))

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

    def must_let(self, gpu: int) -> bool:
        """False if `let_one` has nothing to do: the submission passes without it."""
        return bool(LIBRARY.nvs_job_must_let(self._at, gpu))

    def let_done(self, gpu: int) -> None:
        if LIBRARY.nvs_job_let_done(self._at, gpu):
            self._perform()

    def move_ended(self, gpu: int, *, to_host: bool, moved: int, took_ns: int, left: int = 0) -> None:
        """`left`: so much can still be on the card after a move to the host."""
        if LIBRARY.nvs_tell_move_ended(self._at, gpu, to_host, moved, left, took_ns):
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

    def next_look(self, now: int, gpu: int, facts: LookFacts) -> int:
        """Begins to look, rests or ends; when the next look is due, or NEVER."""
        when: int = LIBRARY.nvs_looker_tick(self._at, gpu, now, facts)
        if self._out.todo:
            self._perform()
        return when

    def looked(self, now: int, gpu: int, facts: LookFacts, seen: Unfinished) -> int:
        """The answer of a look that was due; when the next one is."""
        when: int = LIBRARY.nvs_looker_saw(self._at, gpu, now, facts, seen)
        if self._out.todo:
            self._perform()
        return when

    def ask(self, now: int, gpu: int, ask: int, need: int) -> None:
        if LIBRARY.nvs_client_ask(self._at, now, gpu, ask, need):
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
