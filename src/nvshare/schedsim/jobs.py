"""Programs as a scheduler sees them: they start up, and then compute alternately on the GPU and on the CPU."""

from nvshare.core.model import DEFAULT_WEIGHT
from nvshare.record import Record


class Job(Record, frozen=True):
    """One program. `phases` are (GPU seconds, CPU seconds) in the order in which they come. In each phase one thread
    submits the GPU seconds to each of its cards, one after the other; they all work at the same time."""

    name: str
    memory: int
    startup_s: float
    phases: tuple[tuple[float, float], ...]
    gpu: str = "gpu0"
    arrives_s: float = 0.0
    is_interactive: bool = False
    """Somebody waits for the end of each GPU phase: the times of these responses are kept."""
    priority: int = 0
    weight: int = DEFAULT_WEIGHT
    more_gpus: tuple[str, ...] = ()
    working_set: int | None = None
    """What it uses of its memory, as its library finds out; None: all of it."""
    host_memory: int | None = None
    """What it may have on the host of the memory of each card (the memory limit of its pod); None: enough."""

    limits: tuple[tuple[float, int], ...] = ()
    """Its memory limit on each card from so many seconds after its arrival on; 0: none."""

    @property
    def gpus(self) -> tuple[str, ...]:
        return (self.gpu, *self.more_gpus)

    @property
    def used(self) -> int:
        return self.memory if self.working_set is None else self.working_set

    @property
    def gpu_s(self) -> float:
        """GPU time in all, on each card."""
        return sum(gpu for gpu, _ in self.phases)

    @property
    def alone_s(self) -> float:
        """How long it takes with a card of its own, all its memory on it."""
        return self.startup_s + sum(gpu + cpu for gpu, cpu in self.phases)


def even_job(name: str, memory: int, *, gpu_s: float, cpu_s: float, phase_s: float, startup_s: float) -> Job:
    """A job whose phases are all alike: `cpu_s` includes the start-up, a GPU phase takes about `phase_s`."""
    count = max(1, round(gpu_s / phase_s))
    startup_s = min(startup_s, cpu_s)
    return Job(name, memory, startup_s, ((gpu_s / count, (cpu_s - startup_s) / count),) * count)
