"""One example of every message, and of what sets their bytes apart: both flags, extreme values, several GPUs.

The golden frames are these in hex. C sees the same values through `c_assignments`, so that both languages start from
one list and must end with the same bytes."""

from msgspec.structs import astuple

from nvshare.wire import messages as m
from nvshare.wire.codec import ENTRY_LAYOUT, LAYOUTS
from nvshare.wire.layout import Layout

_UUID = bytes(range(0x10, 0x20))
_OTHER_UUID = bytes(range(0xF0, 0x100))
_LOCK = 0x0000_0007_0000_0102
_ENTRY = m.GpuEntry(_UUID, m.GpuKind.GPU, m.ClaimState.HOLDING, 2, 80 << 30, _LOCK, 3 << 30, 1 << 20, 8 << 30, 4 << 30)
_FRESH = m.GpuEntry(_OTHER_UUID, m.GpuKind.MIG, m.ClaimState.UNSHARED, 0, m.MAX_BYTES, 0, 0, 0, 0, m.UNLIMITED)


def register(*entries: m.GpuEntry, name: bytes = b"python train.py") -> m.Register:
    padded = name.ljust(m.NAME_BYTES, b"\0")
    return m.Register(0, 1, -3, 2 << 30, _OTHER_UUID, padded, 300, len(entries), ENTRY_LAYOUT.size, entries)


EXAMPLES: dict[str, m.Message] = {
    "register_no_gpu": register(name=b""),
    "register_one_gpu": register(_ENTRY),
    "register_two_gpus": register(_ENTRY, _FRESH, name=b"x" * m.NAME_BYTES),
    "sched_on": m.SchedOn(0, 1, 0x1122_3344_5566_7788),
    "sched_off": m.SchedOff(0, 65535, 1),
    "req_lock": m.ReqLock(1, 3, 5 << 30, 7 << 20),
    "lock_ok": m.LockOk(0, False, _LOCK),
    "lock_ok_contended": m.LockOk(63, True, (1 << 64) - 1),
    "drop_lock": m.DropLock(0, m.DropReason.QUANTUM, 10_000, _LOCK),
    "lock_released": m.LockReleased(0, False, _LOCK),
    "lock_released_again": m.LockReleased(2, True, _LOCK),
    "set_tq": m.SetTq(0, 30),
    "mem_update": m.MemUpdate(1, 65535, m.MAX_BYTES, 0),
    "wait_for_mem": m.WaitForMem(0, 4_000_000_000),
    "mem_available": m.MemAvailable(5),
    "update_limit": m.UpdateLimit(0, 4 << 30),
    "contended": m.Contended(0, True),
    "not_contended": m.Contended(0, False),
    "idle": m.Idle(3),
    "busy": m.Busy(3),
    "budget": m.Budget(0, 7, 9, 3 << 30, 1 << 30),
    "budget_unlimited": m.Budget(0, 1, 0, m.UNLIMITED, 0),
    "budget_ask": m.BudgetAsk(0, 9, 3 << 30),
    "budget_recall": m.BudgetRecall(0, 8, 0),
    "budget_return": m.BudgetReturn(0, 8, 2 << 30, 2 << 30),
    "ping": m.Ping(0),
    "pong": m.Pong(0),
    "capacity": m.Capacity(1, 15 << 30, 400 << 20),
    "move_in": m.MoveIn(1, 7 << 32 | 258, 9 << 30),
    "move_out": m.MoveOut(0, 7 << 32 | 258, 5 << 29),
    "moved": m.Moved(1, True, 5 << 29, 223_000_000),
    "working_set": m.WorkingSet(1, True, 5 << 29),
    "working_set_unknown": m.WorkingSet(0, False, 0),
    "slowed": m.Slowed(1, 40),
    "keep_on_host": m.KeepOnHost(1, 2 << 30),
    "on_host": m.OnHost(0, 3 << 29),
    "mover": m.Mover(1, m.MoverState.NO_EFFECT),
    "collective": m.Collective(0),
    "drained": m.Drained(2),
    "let_one": m.LetOne(2),
    "expected_start": m.ExpectedStart(1, 41_500),
    "gpu_time": m.GpuTime(1, 200, 81_234_567, 0xFFFF_0000_FFFF_0001, 3, 5, 7),
    "core_limit": m.CoreLimit(0, 30),
    "memory_mode": m.MemoryMode(0, m.MemoryKind.CHECKPOINT),
    "room_made": m.RoomMade(1, 3 << 30),
    "long_wait": m.LongWait(0, 3, 2, 30_000, 61_000, b"team/pod".ljust(m.NAME_BYTES, b"\0")),
}


def c_name(kind: type[m.Message]) -> str:
    """As the header spells it."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")


def c_assignments(message: m.Message) -> list[str]:
    """C statements that fill `frame` (a struct for the fixed part) and `entries` with this message's values."""
    lines = _assign("frame", LAYOUTS[type(message)], astuple(message))
    if isinstance(message, m.Register):
        for index, entry in enumerate(message.entries):
            lines += _assign(f"entries[{index}]", ENTRY_LAYOUT, astuple(entry))
    return lines


def _assign(target: str, layout: Layout, values: tuple[object, ...]) -> list[str]:
    names = [field.name for field in layout.fields if field.name not in ("length", "type")]
    lines = []
    for name, value in zip(names, values, strict=False):
        if isinstance(value, bytes):
            escaped = "".join(f"\\x{byte:02x}" for byte in value)
            lines.append(f'memcpy({target}.{name}, "{escaped}", sizeof {target}.{name});')
        else:
            assert isinstance(value, int)
            suffix = "LL" if value < 0 else "ULL"
            lines.append(f"{target}.{name} = {int(value)}{suffix};")
    return lines
