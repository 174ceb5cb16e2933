"""What the client machine wants done, one effect after the other (native/libnvshare/client/effects.h)."""

import ctypes
from ctypes import c_uint32
from enum import IntEnum
from typing import Protocol


class EffectKind(IntEnum):
    """enum nvs_effect_kind: in the order in which effects are performed."""

    UNANSWERED = 0
    SAY = 1
    DISCONNECT = 2
    ANSWER = 3
    STOP_DRAIN = 4
    CLOSE = 5
    DRAIN = 6
    OPEN = 7
    WATCH = 8
    LET_ONE = 9
    MOVE_OUT = 10
    MOVE_IN = 11
    HOLD = 12
    FIGURES = 13
    SEND = 14
    AWAY = 15
    JOINED = 16
    CONNECT = 17


class Effect(ctypes.Structure):
    """struct nvs_effect."""

    kind: int
    gpu: int
    notices: int
    _fields_ = (("kind", c_uint32), ("gpu", c_uint32), ("notices", c_uint32))


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
        """Move at most so many bytes to the host, or to the GPU; then call `move_ended`."""

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
