"""What this machine reports."""

from nvshare.core.events.event import Event
from nvshare.core.model import HostRoom, ProcessMemory


class ServingBegan(Event, frozen=True):
    """Clients are served from now on. After a restart the settling time begins now, because the start may have taken
    longer than the settling time."""


class GpuFound(Event, frozen=True):
    """`index` and `name` (the model) are NVML's, for people."""

    gpu: str
    size: int
    index: int | None = None
    name: str = ""
    is_assumed: bool = False
    """NVML does not report the size: `size` is the machine's memory, until clients report the size that CUDA told
    them."""
    link_bytes_per_s: int = 0
    """The speed of a bulk copy over the link to the host, from what NVML reports about the link; 0: not known."""


class MemoryMeasured(Event, frozen=True):
    """What NVML reports: the memory of processes that are not clients; the size of a context (None: not known);
    the processes of clients that report unswappable memory, as far as NVML knows their memory; processes that are not
    clients now and were not at the previous measurement either."""

    gpu: str
    foreign: int
    context_bytes: int | None = None
    processes: tuple[ProcessMemory, ...] = ()
    foreign_pids: tuple[int, ...] = ()


class UtilizationMeasured(Event, frozen=True):
    """The part of NVML's last sample period (1/6 s to 1 s) in which a kernel of any process ran, in percent."""

    gpu: str
    percent: int


class GpuTimeAsked(Event, frozen=True):
    """A reader is about to read the state, and the clients' GPU time should be that of now. It is an event because it
    changes the core: when GPU time is divided among clients makes a difference (compute.gpu_time)."""


class HostMemoryMeasured(Event, frozen=True):
    """What the host can take of clients' memory. Only of clients that have had a turn: the others have nothing on the
    GPU."""

    rooms: tuple[HostRoom, ...]


class ProcessEnded(Event, frozen=True):
    """A process that was a group of its own has ended: no order for it is needed any more. Posted only
    for groups that are kept without a client."""

    group: str


class AlarmRang(Event, frozen=True):
    """The time of `next_deadline()` has come."""
