"""What the client machine knows of its looks (native/libnvshare/client/looks.h), and when it looks (looker.h there)."""

import ctypes
from ctypes import c_bool, c_int64, c_uint32, c_uint64
from enum import IntEnum
from typing import Any

DUE = 192
"""NVS_LOOKS_DUE: so many looks are a report."""
QUIET = 128
"""NVS_LOOKS_QUIET: after so many looks without work a process may rest."""


class Unfinished(IntEnum):
    """enum nvs_unfinished: what a look has found."""

    NONE = 0
    SOME = 1
    MORE = 2
    UNKNOWN = 3


class LookReport(ctypes.Structure):
    """struct nvs_look_report: one GPU_TIME."""

    first: int
    count: int
    _fields_ = (("first", c_uint64), ("count", c_uint32), ("busy", c_uint64 * 4))

    @property
    def looks(self) -> int:
        """`busy` as one number: bit 0 is look `first`."""
        return sum(word << 64 * i for i, word in enumerate(self.busy))


class Looks(ctypes.Structure):
    """struct nvs_looks."""

    report: LookReport
    last: int
    is_begun: bool
    _fields_ = (
        ("report", LookReport), ("last", c_uint64), ("block_end", c_uint64), ("idle_since", c_uint64),
        ("alike", c_uint32), ("is_begun", c_bool), ("was_busy", c_bool),
    )  # fmt: skip


class LookFacts(ctypes.Structure):
    """struct nvs_look_facts: what the caller knows about a GPU at this moment."""

    can_look: bool
    can_report: bool
    may_be_unfinished: bool
    is_idle: bool
    _fields_ = tuple((name, c_bool) for name in ("can_look", "can_report", "may_be_unfinished", "is_idle"))


class Looker(ctypes.Structure):
    """struct nvs_looker."""

    is_resting: bool
    _fields_ = (
        ("looks", Looks), ("is_resting", c_bool), ("unknown", c_uint32), ("due_ns", c_int64), ("round_ns", c_int64),
    )  # fmt: skip


_looks, _report = ctypes.POINTER(Looks), ctypes.POINTER(LookReport)
CALLS: dict[str, tuple[Any, list[Any]]] = {
    "nvs_look_at": (c_uint64, [c_int64]),
    "nvs_looks_next": (c_int64, [_looks, c_int64]),
    "nvs_looks_saw": (c_bool, [_looks, c_int64, c_bool, _report]),
    "nvs_looks_are_quiet": (c_bool, [_looks]),
    "nvs_looks_end": (c_bool, [_looks, _report]),
}
"""Those of looks.h. library.py has all that need a client."""
