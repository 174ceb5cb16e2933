"""The C structs, constants and calls of the client machine.

tests/client_machine/test_contract.py compares all of them with the headers."""

import ctypes
from ctypes import c_bool, c_char, c_int, c_int16, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum
from typing import Any, Self

from nvshare.client_machine.effects import Effect
from nvshare.client_machine.looks import CALLS, Looker, LookFacts
from nvshare.native_directory import NATIVE

MAX_GPUS = 64
MAX_FRAME = 8192
NEVER = (1 << 63) - 1


class TurnDo:
    """enum nvs_turn_do: what is to be done at a GPU; bits."""

    OPEN = 1
    CLOSE = 2
    REQUEST = 4
    DRAIN = 8
    STOP_DRAIN = 16
    RELEASE = 32


class GpuDo:
    """enum nvs_gpu_do: bits beside those of TurnDo."""

    FIGURES = 64
    WATCH = 128
    MOVE_IN = 256
    MOVE_OUT = 512
    HOLD = 1024
    LET_ONE = 2048


class ClientDo:
    """enum nvs_client_do: what is to be done for the process; bits."""

    SEND = 1
    GPUS = 2
    CONNECT = 4
    DISCONNECT = 8
    JOINED = 16
    ANSWER = 32
    UNANSWERED = 64
    AWAY = 128
    SAY_ALONE = 256
    SAY_LOST = 512
    SAY_BROKEN = 1024
    SAY_HUNG = 2048
    SAY_UNHEARD = 4096


class News(IntEnum):
    """enum nvs_news: how much a process has to report of one GPU."""

    NONE = 0
    SOME = 1
    MUCH = 2


class TurnState(IntEnum):
    """enum nvs_turn_state."""

    JOINING = 0
    NONE = 1
    WAITING = 2
    HOLDING = 3
    DRAINING = 4
    FREE = 5
    UNSHARED = 6
    ORPHANED = 7
    UNATTENDED = 8


class Verdict(IntEnum):
    """enum nvs_verdict: what becomes of an allocation."""

    CHARGED = 0
    ASK = 1
    REFUSE = 2


class Absence(IntEnum):
    """enum nvs_absence: why there is no connection."""

    ABSENT = 0
    AWAY = 1
    CROWDED = 2


class Wait(IntEnum):
    """enum nvs_wait: what a waiting client waits for."""

    NONE = 0
    ANSWER = 1
    MEMORY = 2
    LOCK = 3


class AskFate(IntEnum):
    """enum nvs_ask_fate: what becomes of a question that has no answer yet."""

    SENT = 0
    WAITS = 1
    REFUSED = 2


class Config(ctypes.Structure):
    """struct nvs_client_config: the library's options. `Config()` has its defaults."""

    _fields_ = (
        ("reconnect_ns", c_int64), ("orphan_ns", c_int64), ("join_ns", c_int64), ("silence_ns", c_int64),
        ("ask_ns", c_int64), ("own_limit", c_uint64), ("priority", c_int16), ("weight", c_uint16),
        ("core_limit", c_uint8), ("run", c_uint8 * 16), ("name", c_char * 48),
    )  # fmt: skip

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        LIBRARY.nvs_client_defaults(self)
        for name, value in fields.items():
            setattr(self, name, value)


class Account(ctypes.Structure):
    """struct nvs_account: what the process uses of one GPU, and how much it may."""

    used: int
    unswappable: int
    limit: int
    budget: int
    contexts: int
    keep: int
    _fields_ = tuple(
        (name, c_uint64)
        for name in ("used", "unswappable", "limit", "budget", "others", "card", "room", "context", "contexts",
                     "oversubscribe", "keep", "told_used", "told_unswappable")
    )  # fmt: skip

    @classmethod
    def of(cls, card: int, own_limit: int = 0, *, oversubscribe: bool = True) -> Self:
        account = cls()
        LIBRARY.nvs_account_init(account, card, own_limit, oversubscribe)
        return account

    def reserve(self, size: int, *, swappable: bool = True) -> Verdict:
        """Room is also taken."""
        return Verdict(LIBRARY.nvs_account_reserve(self, size, swappable))

    def add(self, size: int, *, swappable: bool = True) -> None:
        """Memory that is there, whatever the limit says."""
        LIBRARY.nvs_account_add(self, size, swappable)

    def free(self, size: int, *, swappable: bool = True) -> None:
        LIBRARY.nvs_account_return(self, size, swappable)

    # For tests of an account alone; a machine does this itself when it receives the message.

    def set_limit(self, limit: int) -> None:
        """UPDATE_LIMIT."""
        LIBRARY.nvs_account_limit(self, limit)

    def set_budget(self, budget: int, others: int) -> None:
        """BUDGET."""
        LIBRARY.nvs_account_budget(self, budget, others)

    def recall(self, keep: int) -> None:
        """BUDGET_RECALL."""
        LIBRARY.nvs_account_recall(self, keep)

    def copy(self) -> Self:
        return type(self).from_buffer_copy(self)


class Turn(ctypes.Structure):
    """struct nvs_turn."""

    state: int
    lock: int
    contended: bool
    _fields_ = (("state", c_int), ("lock", c_uint64), ("contended", c_bool), ("claimed_nothing", c_bool))


class Gpu(ctypes.Structure):
    """struct nvs_client_gpu."""

    turn: Turn
    wait: int
    move_bytes: int
    keep_bytes: int
    held_bytes: int
    _fields_ = (
        ("turn", Turn), ("uuid", c_uint8 * 16), ("kind", c_uint8), ("bytes", c_uint64), ("wait", c_int),
        ("idle_reported", c_bool), ("owes_claim", c_bool), ("owes_request", c_bool), ("owes_report", c_bool),
        ("yields_without_contexts", c_bool), ("waiters", c_uint32), ("told_contexts", c_uint32),
        ("report_ns", c_int64), ("owed_bytes", c_uint64), ("move_bytes", c_uint64), ("is_told_known", c_bool),
        ("told_working_set", c_uint64), ("keep_bytes", c_uint64), ("held_bytes", c_uint64), ("told_mover", c_uint8),
        ("slowed_ns", c_int64), ("looker", Looker),
    )  # fmt: skip


class Seen(ctypes.Structure):
    """struct nvs_seen: what a program's threads have left behind at one GPU."""

    waiters: int
    contexts: int
    news: int
    _fields_ = (("waiters", c_uint32), ("contexts", c_uint32), ("news", c_uint32))


class Out(ctypes.Structure):
    """struct nvs_client_out: what is to be done."""

    _fields_ = (
        ("todo", c_uint32), ("frames_bytes", c_uint32), ("gpus", c_uint64), ("granted", c_uint64), ("ask", c_uint32),
        ("gpu_todo", c_uint32 * MAX_GPUS), ("frames", c_char * MAX_FRAME),
    )  # fmt: skip


class Client(ctypes.Structure):
    """struct nvs_client."""

    _fields_ = (
        ("config", Config), ("gpu_count", c_int), ("is_connected", c_bool), ("is_registered", c_bool),
        ("is_joined", c_bool), ("paces", c_bool), ("is_expected", c_bool), ("has_said_alone", c_bool),
        ("has_said_lost", c_bool), ("has_said_hung", c_bool), ("uses_collectives", c_bool),
        ("told_mode", c_uint8), ("version", c_uint16), ("attempts_failed", c_uint32), ("register_at", c_uint32),
        ("next_attempt_ns", c_int64), ("lost_ns", c_int64), ("join_by_ns", c_int64), ("is_attentive", c_bool),
        ("is_hung", c_bool), ("is_mute", c_bool), ("open_asks", c_uint32), ("quiet_since_ns", c_int64),
        ("pinged_ns", c_int64), ("asked_ns", c_int64), ("gpus", Gpu * MAX_GPUS), ("out", Out),
    )  # fmt: skip


_pointer = ctypes.POINTER
_client, _account, _facts = _pointer(Client), _pointer(Account), _pointer(LookFacts)
_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "nvs_client_defaults": (None, [_pointer(Config)]),
    "nvs_client_init": (None, [_client, _pointer(Config), c_int64]),
    "nvs_client_add_gpu": (None, [_client, ctypes.c_char_p, c_uint8, c_uint64]),
    "nvs_client_tick": (c_uint32, [_client, c_int64, _pointer(Seen)]),
    "nvs_client_next": (c_int64, [_client]),
    "nvs_client_connected": (c_uint32, [_client]),
    "nvs_client_not_connected": (c_uint32, [_client, c_int64, c_int]),
    "nvs_client_lost": (c_uint32, [_client, c_int64]),
    "nvs_client_receive": (c_uint32, [_client, c_int64, ctypes.c_char_p, c_size_t, _account]),
    "nvs_client_figures": (c_uint32, [_client, c_int, _account, c_uint32]),
    "nvs_client_drained": (c_uint32, [_client, c_int64, c_int, c_bool]),
    "nvs_client_idle": (c_uint32, [_client, c_int]),
    "nvs_client_busy": (c_uint32, [_client, c_int]),
    "nvs_job_use_collectives": (c_uint32, [_client]),
    "nvs_job_must_let": (c_bool, [_client, c_int]),
    "nvs_job_let_done": (c_uint32, [_client, c_int]),
    "nvs_tell_move_ended": (c_uint32, [_client, c_int, c_bool, c_uint64, c_uint64, c_int64]),
    "nvs_tell_working_set": (c_uint32, [_client, c_int, c_bool, c_uint64]),
    "nvs_tell_held": (c_uint32, [_client, c_int, c_uint64]),
    "nvs_tell_mover": (c_uint32, [_client, c_int, c_uint8]),
    "nvs_tell_slowed": (c_uint32, [_client, c_int64, c_int, c_uint32]),
    "nvs_looker_tick": (c_int64, [_client, c_int, c_int64, _facts]),
    "nvs_looker_saw": (c_int64, [_client, c_int, c_int64, _facts, c_int]),
    "nvs_looker_wants_watch": (c_bool, [_client, c_int, _facts]),
    **CALLS,
    "nvs_client_ask": (c_uint32, [_client, c_int64, c_int, c_uint32, c_uint64]),
    "nvs_client_ask_fate": (c_int, [_client]),
    "nvs_effects_next": (c_bool, [_client, c_bool, _pointer(Effect)]),
    "nvs_client_watches": (c_bool, [_client, c_int]),
    "nvs_client_sizes": (None, [_pointer(c_uint32)]),
    "nvs_account_init": (None, [_account, c_uint64, c_uint64, c_bool]),
    "nvs_account_reserve": (c_int, [_account, c_uint64, c_bool]),
    "nvs_account_add": (None, [_account, c_uint64, c_bool]),
    "nvs_account_return": (None, [_account, c_uint64, c_bool]),
    "nvs_account_limit": (None, [_account, c_uint64]),
    "nvs_account_budget": (None, [_account, c_uint64, c_uint64]),
    "nvs_account_recall": (None, [_account, c_uint64]),
    "nvs_account_is_much_news": (c_bool, [_account]),
}


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(str(NATIVE / "libnvshare_client.so"))
    for name, (result, arguments) in _CALLS.items():
        call = getattr(library, name)
        call.restype, call.argtypes = result, arguments
    sizes = (c_uint32 * 6)()
    library.nvs_client_sizes(sizes)
    ours = [ctypes.sizeof(kind) for kind in (Client, Gpu, Config, Seen, Out, Account)]
    if list(sizes) != ours:
        raise ImportError(
            f"libnvshare_client.so has structs of other sizes: {list(sizes)} instead of {ours}; build it again"
        )
    return library


LIBRARY = _load()
