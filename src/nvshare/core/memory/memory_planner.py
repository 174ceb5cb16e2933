"""Which clients fit on a GPU together, by the memory that counts (memory.memory_reports).

    fits(c)     Σ need(running) + Σ unswappable(all clients) + foreign + need(c) ≤ safe limit
    safe limit  size * (100 - reserve %) / 100
    room(c)     size - card reserve - foreign - Σ unswappable(all other clients)

`room` is the maximum that a client may use, its own contexts included: memory within it stays on the card while the
client runs alone. The card reserve is for memory that is not counted: the driver's own memory, stacks of kernels,
fragmentation. card reserve = min(size / 8, max(1 GiB, 5 %)), so that small (simulated) cards are usable.

The unswappable memory of all clients is what is confirmed, and of what clients merely report a part that depends on
their account (memory.unbacked_memory).

`running` clients are those in state staying or dropping (turns.seat). `foreign` is the memory of processes that are not
clients. The sums are kept up to date, so no question needs a scan of all clients. What follows from them is computed
when one of them changes, because each step asks several times."""

from collections.abc import Iterable

from nvshare.core.memory.unbacked_memory import UnbackedMemory
from nvshare.core.model import GIB, Memory, Settings
from nvshare.core.turns.seat import Seat


def default_card_reserve(size: int) -> int:
    return min(max(GIB, size // 20), size // 8)


class MemoryPlanner:
    """The sizes and sums of one GPU. core.turns tells it when a seat's state or memory changes."""

    def __init__(self, settings: Settings) -> None:
        self.size = 0
        self.safe_limit = 0
        self.foreign = 0
        self.is_known = False
        """The machine reported this GPU. A GPU that only clients named is forgotten with the last of them."""
        self.context_bytes = settings.context_bytes
        self.swappable = self.needed = 0
        """Of all clients, whether they run or not: what they have, and what they need of it."""
        self.by_faults = 0
        """The part of `needed` of clients that do not move memory in bulk: page faults move it."""
        self.link_bytes_per_s = 0
        """What a bulk move gets by what NVML tells of the link; 0: not known."""
        self.unswappable = 0
        """Of all clients, their contexts included: what counts of what no switch moves."""
        self._backed = 0
        """The part of it that NVML has measured, or that is pinned."""
        self._unbacked = UnbackedMemory()
        self.staying_bytes = 0
        """What the staying clients need."""
        self.dropping_bytes = 0
        """What the dropping clients need."""
        self.pinned = 0
        """The part of `unswappable` that could move if the host had room for it."""
        self.protected = 0
        """The same, not divided among the clients that have some: a client that would evict it waits."""
        self.capacity = 0
        """What the card has for all clients' swappable memory."""
        self.away = 0
        """How much of what all clients need cannot be on the card."""
        self._usable = 0
        """What the safe limit leaves for the running clients."""
        self._reserve_percent = settings.reserve_percent
        self._card_reserve = settings.card_reserve
        self._size_is_measured = False

    @property
    def running_bytes(self) -> int:
        return self.staying_bytes + self.dropping_bytes

    @property
    def fixed_bytes(self) -> int:
        """What no switch can free."""
        return self.unswappable + self.foreign

    @property
    def card_reserve(self) -> int:
        """What no program may allocate; at most half of the card, whatever the operator says."""
        if self._card_reserve is None:
            return default_card_reserve(self.size)
        return min(self._card_reserve, self.size // 2)

    def room(self, seat: Seat) -> int:
        """What a client may use of the card in all, its contexts included."""
        others = self._backed - seat.backed + self._unbacked.of_others(seat)
        return max(0, self.size - self.card_reserve - self.foreign - others)

    def must_wait(self, seat: Seat, stuck: int) -> bool:
        """True if a turn of this client would evict memory of others that the host cannot take. `stuck` stays on the
        card too (memory.card_room). At most half of the card counts as such: a client that needs less is not stopped
        by the reports of others, however many they are. Here the half is not divided among clients: one with much is
        protected up to half of the card, even if others have such memory too."""
        others = self.protected - seat.protected
        if others <= 0:
            return False
        fixed = self.fixed_bytes - self.pinned + min(others + stuck, self.size // 2)
        return fixed + seat.pinned + seat.memory.swappable > self.size - self.card_reserve

    def fits(self, need: int) -> bool:
        """True if a client with this need fits beside the running ones."""
        return self.staying_bytes + self.dropping_bytes + need <= self._usable

    def would_fit(self, need: int, leaving_bytes: int = 0) -> bool:
        """True if it fits when the dropping clients are gone, and of the staying ones `leaving_bytes` too."""
        return self.staying_bytes - leaving_bytes + need <= self._usable

    def all_fit(self) -> bool:
        """True if all clients fit together, so that none would ever have to wait."""
        return self.needed <= self._usable

    def _derive(self) -> None:
        """Called when the card, `foreign`, `needed`, or what is part of `unswappable` has changed."""
        self.unswappable = self._backed + self._unbacked.counted
        self.capacity = self.size - self.unswappable - self.foreign
        self.away = max(0, self.needed - self.capacity)
        self._usable = self.safe_limit - self.unswappable - self.foreign

    # The card.

    def set_size(self, size: int, *, measured: bool) -> None:
        """NVML's figure counts; without it the one that clients state (memory.stated_sizes)."""
        before = self.size
        if measured:
            self.size, self._size_is_measured = size, True
        elif not self._size_is_measured:
            self.size = size
        if self.size != before:
            self._unbacked.set_size(self.size)
        self.safe_limit = self.size * (100 - self._reserve_percent) // 100
        self._derive()

    def set_measured(self, foreign: int, context_bytes: int | None) -> None:
        self.foreign, self.is_known = foreign, True
        if context_bytes is not None:
            self.context_bytes = context_bytes  # memory.memory_reports weighs all clients again
        self._derive()

    # The clients.

    def joined(self, seat: Seat) -> None:
        self._unbacked.joined(seat)
        self._derive()

    def left(self, seat: Seat) -> None:
        """It has no memory any more."""
        self._unbacked.left(seat)
        self._derive()

    def resize(self, seat: Seat, memory: Memory, need: int) -> None:
        """Call `weigh` if its unswappable memory has changed."""
        growth = need - seat.need
        self.needed += growth
        if not seat.moves_memory:
            self.by_faults += growth
        self.swappable += memory.swappable - seat.memory.swappable
        if seat.state == "staying":
            self.staying_bytes += growth
        elif seat.state == "dropping":
            self.dropping_bytes += growth
        seat.memory, seat.need = memory, need
        self._derive()

    def weigh(self, seat: Seat, measured: int) -> None:
        """`measured`: the part of its unswappable memory that NVML measured. The rest, except pinned memory, is only
        reported by the client."""
        fixed = seat.memory.unswappable + seat.memory.contexts * self.context_bytes
        backed = min(fixed, measured + seat.pinned)
        if backed != seat.backed or fixed - backed != seat.unbacked:
            self._backed += backed - seat.backed
            seat.backed = backed
            self._unbacked.set(seat, fixed - backed)
            self._derive()

    def pin(self, seat: Seat, pinned: int, protected: int) -> None:
        """So much of the client's unswappable memory is swappable memory that the host cannot take, and so much of that
        is protected."""
        self.pinned += pinned - seat.pinned
        self.protected += protected - seat.protected
        seat.pinned, seat.protected = pinned, protected

    def set_mover(self, seat: Seat, is_moving: bool) -> None:
        """The client moves memory in bulk from now on, or does no longer."""
        if seat.moves_memory != is_moving:
            self.by_faults += -seat.need if is_moving else seat.need
            seat.moves_memory = is_moving

    def start(self, seat: Seat) -> None:
        """A turn begins: the seat is staying from now on."""
        self.staying_bytes += seat.need

    def staying_to_dropping(self, seat: Seat) -> None:
        self.staying_bytes -= seat.need
        self.dropping_bytes += seat.need

    def stop(self, seat: Seat) -> None:
        """A turn ends; call it before the state of the seat changes."""
        if seat.state == "staying":
            self.staying_bytes -= seat.need
        else:
            self.dropping_bytes -= seat.need

    def check(self, seats: Iterable[Seat]) -> None:
        """What must hold, in full; for tests."""
        expected = MemoryPlanner(Settings(context_bytes=self.context_bytes))
        for seat in seats:
            memory = seat.memory
            expected.needed += seat.need
            expected.by_faults += seat.need * (not seat.moves_memory)
            expected.swappable += memory.swappable
            expected.pinned += seat.pinned
            expected.protected += seat.protected
            expected._backed += seat.backed
            assert seat.backed + seat.unbacked == memory.unswappable + memory.contexts * self.context_bytes
            expected.staying_bytes += seat.need * (seat.state == "staying")
            expected.dropping_bytes += seat.need * (seat.state == "dropping")
        sums = ("swappable", "needed", "by_faults", "_backed", "pinned", "protected")
        for name in (*sums, "staying_bytes", "dropping_bytes"):
            assert getattr(self, name) == getattr(expected, name), name
        assert self.unswappable == self._backed + self._unbacked.counted
        assert self.capacity == self.size - self.fixed_bytes
        assert self.away == max(0, self.needed - self.capacity)
        assert self._usable == self.safe_limit - self.fixed_bytes
