"""Messages as events: what is checked on the way."""

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import SECOND
from nvshare.translation import EVENTS, FRAMES, Registrant, registration
from nvshare.wire import messages as m
from nvshare.wire.codec import WireError, encode


def test_gpu_time_becomes_one_number_with_a_bit_for_each_look() -> None:
    message = m.GpuTime(0, 200, 1000, busy_0=1, busy_1=2, busy_2=4, busy_3=(1 << 64) - 1)
    event = EVENTS[m.GpuTime](7, "GPU-1", message)
    assert event == ev.GpuTimeReported(7, "GPU-1", 1000, 200, 1 | 2 << 64 | 4 << 128 | 0xFF << 192)


def test_gpu_time_of_too_many_looks_is_an_error_of_the_peer() -> None:
    with pytest.raises(WireError):
        EVENTS[m.GpuTime](7, "GPU-1", m.GpuTime(0, m.LOOKS_MOST + 1, 1000, 0, 0, 0, 0))


def test_gpu_time_of_no_looks_says_from_when_on_there_is_no_work() -> None:
    event = EVENTS[m.GpuTime](7, "GPU-1", m.GpuTime(0, 0, 1000, 0, 0, 0, 0))
    assert event == ev.GpuTimeReported(7, "GPU-1", 1000, 0, 0)


@pytest.mark.parametrize(
    ("who", "said", "counts"),
    [
        (Registrant(1, 7, "run/1", "", "x"), (10, 1000), (10, 1000)),
        (Registrant(1, 7, "run/1", "", "x", may_raise=False), (10, 1000), (0, 100)),
        (Registrant(1, 7, "run/1", "", "x", may_raise=False), (-3, 7), (-3, 7)),
        (Registrant(1, 7, "pod/1", "", "x", is_in_pod=True), (-3, 7), (0, 100)),
    ],
)
def test_a_program_that_may_not_raise_its_priority_and_weight_may_lower_them(
    who: Registrant, said: tuple[int, int], counts: tuple[int, int]
) -> None:
    message = m.Register(0, 2, said[0], 0, bytes(16), bytes(32), said[1], 0, 0, ())
    event = registration(who, message)
    assert (event.priority, event.weight) == counts


def test_a_core_limit_is_a_percentage() -> None:
    assert EVENTS[m.CoreLimit](7, "GPU-1", m.CoreLimit(0, 100)) == ev.CoreLimitWanted(7, 100)
    with pytest.raises(WireError):
        EVENTS[m.CoreLimit](7, "GPU-1", m.CoreLimit(0, 101))


def test_a_memory_mode_that_is_not_known_counts_as_native() -> None:
    assert EVENTS[m.MemoryMode](7, "GPU-1", m.MemoryMode(0, 2)) == ev.MemoryModeReported(7, "checkpoint")
    assert EVENTS[m.MemoryMode](7, "GPU-1", m.MemoryMode(0, 200)) == ev.MemoryModeReported(7, "native")


class Told:
    """A receiver of frames."""

    def __init__(self) -> None:
        self.index_of, self.grace_ms = {"GPU-1": 0}, 10_000

    def name_of(self, client: int) -> str:
        return f"client {client}"


@pytest.mark.parametrize(
    ("why", "holders", "held_ms", "holder"),
    [({}, 1, 2000, b"client 2"), ({"is_paused": True}, 0, 0, b""), ({"is_held_back": True}, 0, 0, b"")],
    ids=["of another's turn", "of a pause", "of a core limit"],
)
def test_a_client_that_waits_for_no_holder_is_told_of_none(
    why: dict[str, bool], holders: int, held_ms: int, holder: bytes
) -> None:
    waits = ac.ReportLongWait(1, "GPU-1", 1, 30 * SECOND, 1, 2, 2 * SECOND, **why)
    told = m.LongWait(0, 1, holders, 30_000, held_ms, holder.ljust(m.NAME_BYTES, b"\0"))
    assert FRAMES[ac.ReportLongWait](waits, Told()) == encode(told)
