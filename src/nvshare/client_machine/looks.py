"""What the client machine keeps of its looks (native/libnvshare/client/looks.h)."""

import ctypes
from ctypes import c_bool, c_uint32, c_uint64
from typing import Self


class LookReport(ctypes.Structure):
    """struct nvs_look_report: one GPU_TIME."""

    first: int
    count: int
    _fields_ = (("first", c_uint64), ("count", c_uint32), ("busy", c_uint64 * 4))

    @classmethod
    def of(cls, first: int, count: int, busy: int) -> Self:
        return cls(first, count, (c_uint64 * 4)(*(busy >> 64 * i & (1 << 64) - 1 for i in range(4))))

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
