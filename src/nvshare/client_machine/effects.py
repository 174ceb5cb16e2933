"""What the client machine wants done, one effect after the other (native/libnvshare/client/effects.h)."""

import ctypes
from ctypes import c_uint32
from enum import IntEnum


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
