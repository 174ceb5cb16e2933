"""Who is at a GPU and how much memory they have there: the facts that turns are decided on.

A client fits if swappable(running) + unswappable(everybody) + foreign + its own swappable is within the safe limit. The
running are `staying`, in order of admission, or `dropping`, told to stop and not yet drained, in order of their
deadlines; the dropping still count as running. Sums are kept up to date, so no question looks at every client."""

from nvshare.core.model import Memory, Seat, Settings
from nvshare.core.queue import Queue


class Room:
    """The seats at one GPU and their memory. Only core.turns moves a seat from one state to another."""

    def __init__(self, uuid: str, settings: Settings) -> None:
        self.uuid = uuid
        self.settings = settings
        self.size = 0
        self.safe_limit = 0
        """What is planned with: the size less the reserve."""
        self.foreign = 0
        self.context_bytes = settings.context_bytes
        self.seats: dict[int, Seat] = {}
        self.staying: dict[int, Seat] = {}
        self.dropping: dict[int, Seat] = {}
        self.queue = Queue()
        self.swappable = 0
        """Of everybody, whether running or not; and what no switch moves."""
        self.unswappable = 0
        self.staying_bytes = 0
        self.dropping_bytes = 0
        self.is_known = False
        """The machine spoke of this GPU. Of others we have only their clients' word, and forget them with those."""
        self._size_is_measured = False

    @property
    def running_bytes(self) -> int:
        """Swappable memory of all who run, those being dropped included."""
        return self.staying_bytes + self.dropping_bytes

    @property
    def fixed_bytes(self) -> int:
        """What no switch can free."""
        return self.unswappable + self.foreign

    @property
    def capacity(self) -> int:
        """What the card has for everybody's swappable memory."""
        return self.size - self.fixed_bytes

    @property
    def is_empty(self) -> bool:
        return not self.staying and not self.dropping

    def running(self) -> list[Seat]:
        return [*self.staying.values(), *self.dropping.values()]

    def fits(self, swappable: int) -> bool:
        """True if a newcomer of this size fits beside all who run."""
        running = self.staying_bytes + self.dropping_bytes
        return running + self.unswappable + self.foreign + swappable <= self.safe_limit

    def would_fit(self, swappable: int, leaving_bytes: int = 0) -> bool:
        """True if it fits once the dropping are gone, and those with `leaving_bytes` too."""
        staying = self.staying_bytes - leaving_bytes
        return staying + self.unswappable + self.foreign + swappable <= self.safe_limit

    def all_fit(self) -> bool:
        """True if nobody would ever have to wait."""
        return self.swappable + self.unswappable + self.foreign <= self.safe_limit

    def is_within_limit(self) -> bool:
        """Those who stay fit, or one is alone."""
        return len(self.staying) <= 1 or self.would_fit(0)

    # Facts noted.

    def note_size(self, size: int, *, measured: bool) -> None:
        """NVML's figure counts; without it the smallest one that a client reported."""
        if measured:
            self.size, self._size_is_measured, self.is_known = size, True, True
        elif not self._size_is_measured:
            self.size = min(self.size or size, size)
        self.safe_limit = self.size * (100 - self.settings.reserve_percent) // 100

    def note_measured(self, foreign: int, context_bytes: int | None) -> None:
        self.foreign, self.is_known = foreign, True
        if context_bytes is not None and context_bytes != self.context_bytes:
            self.context_bytes = context_bytes
            self.unswappable = sum(self._unswappable_of(seat.memory) for seat in self.seats.values())

    def note_joined(self, seat: Seat, memory: Memory) -> None:
        self.seats[seat.client] = seat
        self.note_memory(seat, memory)

    def note_memory(self, seat: Seat, memory: Memory) -> None:
        growth = memory.swappable - seat.memory.swappable
        self.swappable += growth
        self.unswappable += self._unswappable_of(memory) - self._unswappable_of(seat.memory)
        if seat.drop_deadline:
            self.dropping_bytes += growth
        elif seat.lock:
            self.staying_bytes += growth
        elif seat.is_waiting:
            self.queue.resize(seat, memory)
        seat.memory = memory

    def check(self) -> None:
        """What must hold, in full; for tests."""
        assert self.staying_bytes == sum(seat.memory.swappable for seat in self.staying.values())
        assert self.dropping_bytes == sum(seat.memory.swappable for seat in self.dropping.values())
        assert self.swappable == sum(seat.memory.swappable for seat in self.seats.values())
        assert self.unswappable == sum(self._unswappable_of(seat.memory) for seat in self.seats.values())
        for seat in self.seats.values():
            assert bool(seat.drop_deadline) == (seat.client in self.dropping)
            assert bool(seat.lock and not seat.drop_deadline) == (seat.client in self.staying)
            assert not (seat.lock and seat.is_waiting)
        assert sum(seat.is_waiting for seat in self.seats.values()) == len(self.queue)
        self.queue.check()

    # Moves, for core.turns.

    def _to_staying(self, seat: Seat, lock: int) -> None:
        seat.lock = lock
        self.staying[seat.client] = seat
        self.staying_bytes += seat.memory.swappable

    def _to_dropping(self, seat: Seat, deadline: int) -> None:
        del self.staying[seat.client]
        self.staying_bytes -= seat.memory.swappable
        seat.drop_deadline = deadline
        self.dropping[seat.client] = seat
        self.dropping_bytes += seat.memory.swappable

    def _to_rest(self, seat: Seat) -> None:
        if seat.drop_deadline:
            del self.dropping[seat.client]
            self.dropping_bytes -= seat.memory.swappable
        else:
            del self.staying[seat.client]
            self.staying_bytes -= seat.memory.swappable
        seat.lock = seat.drop_deadline = 0

    def _unswappable_of(self, memory: Memory) -> int:
        return memory.unswappable + memory.contexts * self.context_bytes
