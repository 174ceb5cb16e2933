"""A model of a card: how fast each program on it computes, and how fast its pages arrive.

Theory of operation. A tenant is a program's memory on the card (its working set) and perhaps work, in seconds of GPU
time. Pages that are not on the card must be moved in before the work that needs them continues. On a full card this
evicts pages of the tenants that used theirs longest ago. These rules give every speed:

    alone or side by side    k tenants whose pages are all on the card share the GPU equally. Together they do `gain`
                             times the work of one: more than 1 if the kernels of one fill the gaps between those of
                             another, less if they disturb each other.
    loading                  a tenant whose pages are missing loads them first and computes nothing meanwhile. Pages
                             that it never had are created by faults (`first_touch`). Others come by faults (`bus`), or
                             in bulk (`link`). On a full card pages of others are evicted: by faults before each page
                             that comes in (`evict`); in bulk at the same time, or alternately if the link is half
                             duplex. Memory that a tenant was told to move to the host (`push_out`) is evicted first,
                             and in the end all of it is. What a tenant had on the card and no longer has there is host
                             memory of its owner, whatever evicted it. Pages that are created are not a transfer.
    held                     what a tenant keeps on the host (a lowered limit) is used over the link, in addition.
    crowded                  the active tenants together are larger than the card. Each uses all its memory again and
                             again, and a part m of what it touches comes by faults; m = 1 if they are too large by
                             `ramp`. This is thrashing.

The optional figures are off in the model of the thesis: one speed for all moves, eviction is free, m = 1. Between two
changes all speeds are constant, so the card need only be looked at when something changes."""

from math import ceil

from nvshare.core.model import SECOND
from nvshare.record import Record

DONE = 1e-7
"""Seconds of work that count as none: the rounding of times to whole nanoseconds leaves such remains."""


class CardModel(Record, frozen=True):
    """The properties of a card. Sizes in bytes, the bus in bytes per second, `sweep_s` in GPU seconds."""

    size: int
    bus: float
    gain: float
    sweep_s: float
    """How long a program computes until it has touched all of its memory once."""
    touch: float | None = None
    """Bytes that a program touches in a GPU second, whatever its size; None: `sweep_s` counts."""
    ramp: float = 0.0
    """The part of the card by which the active ones must be too large until every page that they touch is missing."""
    first_touch: float | None = None
    """Bytes per second of pages that are created; None: as fast as faults."""
    evict: float | None = None
    """Bytes per second that go out before a fault can bring pages in; None: at no cost."""
    link: float | None = None
    """Bytes per second in bulk, each way; None: all moves are faults."""
    is_duplex: bool = True
    """The link carries both ways at once."""

    @property
    def has_one_speed(self) -> bool:
        return self.first_touch is None and self.evict is None and self.link is None


class Tenant:
    """One program's memory and work on a card."""

    __slots__ = ("held", "host", "pushing", "resident", "size", "touched", "used_at", "work")

    def __init__(self, size: int, host: int | None) -> None:
        self.size = size
        self.host = host
        """The host memory that its owner has for it; None: enough."""
        self.held = 0  # what it keeps on the host
        self.resident = 0.0
        self.touched = 0.0
        """How much of it has been on the card; the rest has never existed."""
        self.work: float | None = None
        self.used_at = 0
        self.pushing: tuple[float, float] | None = None
        """How much it is to move to the host, and what of it was on the card when that began."""

    @property
    def wanted(self) -> int:
        """What is on the card while it computes."""
        return self.size - self.held

    @property
    def is_loading(self) -> bool:
        return self.resident < self.wanted

    @property
    def to_push(self) -> float:
        """What it is still to move to the host."""
        return self.pushing[0] - (self.pushing[1] - self.resident) if self.pushing else 0.0

    def evict(self, amount: float) -> float:
        """Memory leaves the card; how much did."""
        evicted = max(0.0, min(self.resident, amount))
        self.resident -= evicted
        return evicted

    @property
    def is_beyond_host(self) -> bool:
        """More of it is on the host than its owner has memory for."""
        return self.host is not None and self.touched - self.resident >= self.host + 1


class Card:
    """Tenants by key, at a time that only moves forward."""

    def __init__(self, model: CardModel) -> None:
        self.model = model
        self.now = 0
        self.tenants: dict[int, Tenant] = {}
        self.moved_bytes = self.pushed_bytes = 0.0
        """What came to the card over the bus, and what went to the host in bulk."""
        self.busy_s = 0.0
        """GPU seconds of work done for all tenants."""
        self._active: list[Tenant] = []
        self._crowd_speed = 0.0
        """Of each active tenant while they do not fit together; 0: they do."""

    def add(self, key: int, size: int, *, host: int | None = None, is_loaded: bool = False) -> None:
        tenant = self.tenants[key] = Tenant(size, host)
        if is_loaded:
            tenant.resident = tenant.touched = float(size)

    def remove(self, key: int) -> None:
        del self.tenants[key]
        self._note_active()

    def begin(self, now: int, key: int, work_s: float) -> None:
        """A tenant has work from now on."""
        self.advance(now)
        self.tenants[key].work = work_s
        self.tenants[key].pushing = None
        self._note_active()

    def hold(self, now: int, key: int, size: int) -> None:
        """A tenant keeps so much on the host from now on: the rest of what it has may come back."""
        self.advance(now)
        tenant = self.tenants[key]
        tenant.held = min(size, tenant.size)
        self.pushed_bytes += tenant.evict(tenant.resident - tenant.wanted)
        self._note_active()

    def push_out(self, now: int, key: int, size: int) -> int | None:
        """A tenant without work is to move so much to the host; when the link can have done it."""
        self.advance(now)
        tenant = self.tenants[key]
        amount = min(tenant.resident, float(size))
        if self.model.link is None or tenant.work is not None or amount < 1:
            return None
        tenant.pushing = (amount, tenant.resident)
        return now + self.push_ns(amount)

    def push_ns(self, size: float) -> int:
        """How long the link needs to move so much to the host, while others load."""
        link = self.model.link or self.model.bus
        return ceil(size / (link if self.model.is_duplex else link / 2) * SECOND)

    def pushed_out(self, now: int, key: int) -> float:
        """A move to the host ends; how much it was. 0: work has begun since."""
        self.advance(now)
        tenant = self.tenants[key]
        if tenant.pushing is None:
            return 0.0
        moved = tenant.pushing[0]
        tenant.evict(tenant.to_push)
        tenant.pushing = None
        self.pushed_bytes += moved
        return moved

    def pause(self, now: int, key: int) -> float:
        """A tenant's work stops; what is left of it."""
        self.advance(now)
        tenant = self.tenants[key]
        left, tenant.work = tenant.work or 0.0, None
        self._note_active()
        return left

    def is_loading(self, key: int) -> bool:
        return not self._crowd_speed and self.tenants[key].is_loading

    def finished(self) -> list[int]:
        """The programs that had work and have none left."""
        return [key for key, tenant in self.tenants.items() if tenant.work is not None and tenant.work <= DONE]

    def beyond_host(self) -> list[int]:
        """The programs that have more memory on the host than they may."""
        return [key for key, tenant in self.tenants.items() if tenant.is_beyond_host]

    def next_change(self) -> int | None:
        """When some tenant has its pages or has finished, if nothing else happens before."""
        if not self._active:
            return None
        compute, sharing = self._speeds()
        waits = []
        loading = 0.0
        for tenant in self._active:
            assert tenant.work is not None
            if tenant.is_loading and not self._crowd_speed:
                load = self._load_speed(tenant) / sharing
                loading += load
                waits.append((self._next_amount(tenant) - tenant.resident) / load)
            else:
                waits.append(tenant.work / compute * self._remote(tenant))
        if loading and not self.model.has_one_speed and not self._is_full():
            waits.append((self.model.size - self._resident()) / loading)
        return self.now + max(1, ceil(min(waits) * SECOND))

    def advance(self, now: int) -> None:
        """Let time pass; never further than `next_change`."""
        passed = (now - self.now) / SECOND
        self.now = now
        if passed <= 0 or not self._active:
            return
        compute, sharing = self._speeds()
        loads = {tenant: self._load_speed(tenant) / sharing for tenant in self._active if tenant.is_loading}
        for tenant in self._active:
            assert tenant.work is not None
            if tenant.is_loading and not self._crowd_speed:
                self._load(tenant, loads[tenant] * passed)
            else:
                done = min(tenant.work, compute * passed / self._remote(tenant))
                tenant.work -= done
                self.busy_s += done
                if self._crowd_speed:
                    self.moved_bytes += done * self._missing_rate(tenant)
            tenant.used_at = now

    def _resident(self) -> float:
        return sum(tenant.resident for tenant in self.tenants.values())

    def _is_full(self) -> bool:
        return self._resident() >= self.model.size - 1

    def _next_amount(self, tenant: Tenant) -> float:
        """Up to which its pages come at one speed."""
        is_back = tenant.resident < tenant.touched - tenant.held and not self.model.has_one_speed
        return tenant.touched - tenant.held if is_back else tenant.wanted

    def _load_speed(self, tenant: Tenant) -> float:
        """Bytes per second, if nobody else loads."""
        model = self.model
        is_new = tenant.resident >= tenant.touched - tenant.held
        speed = (model.first_touch if is_new else model.link) or model.bus
        if model.has_one_speed or not self._is_full():
            return speed
        if model.link is None:
            return speed if model.evict is None else 1 / (1 / speed + 1 / model.evict)
        return speed if model.is_duplex or is_new else speed / 2

    def _touch_rate(self, tenant: Tenant) -> float:
        return self.model.touch or tenant.size / self.model.sweep_s  # bytes in a GPU second

    def _remote(self, tenant: Tenant) -> float:
        """How long a GPU second takes it with what comes over the link."""
        return 1 + self._touch_rate(tenant) * tenant.held / tenant.size / (self.model.link or self.model.bus)

    def _missing_rate(self, tenant: Tenant) -> float:
        """Bytes that come by faults in a GPU second of a tenant, in a crowd."""
        model = self.model
        excess = sum(active.wanted for active in self._active) / model.size - 1
        missing = min(1.0, excess / model.ramp) if model.ramp else 1.0
        return missing * self._touch_rate(tenant)

    def _speeds(self) -> tuple[float, int]:
        """Work per second of each that computes, and how many load."""
        if self._crowd_speed:
            return self._crowd_speed, 1
        loading = sum(tenant.is_loading for tenant in self._active)
        computing = len(self._active) - loading
        gain = self.model.gain if computing > 1 else 1.0
        return gain / max(1, computing), max(1, loading)

    def _note_active(self) -> None:
        self._active = [tenant for tenant in self.tenants.values() if tenant.work is not None]
        needed = sum(tenant.wanted for tenant in self._active)
        self._crowd_speed = 0.0
        if needed > self.model.size:
            gain = self.model.gain if len(self._active) > 1 else 1.0
            fault = 1 / self.model.bus + (1 / self.model.evict if self.model.evict else 0)
            missing = sum(self._missing_rate(tenant) for tenant in self._active)
            self._crowd_speed = 1 / (len(self._active) / gain + missing * fault)
            for tenant in self.tenants.values():
                tenant.resident = 0.0
            for tenant in self._active:
                tenant.resident = self.model.size * tenant.wanted / needed
                tenant.touched = float(tenant.size)

    def _load(self, tenant: Tenant, loaded: float) -> None:
        loaded = min(loaded, tenant.wanted - tenant.resident)
        self.moved_bytes += min(loaded, max(0.0, tenant.touched - tenant.held - tenant.resident))
        tenant.resident += loaded
        if tenant.wanted - tenant.resident < 1:
            tenant.resident = float(tenant.wanted)
        tenant.touched = max(tenant.touched, tenant.resident + tenant.held)
        excess = sum(other.resident for other in self.tenants.values()) - self.model.size
        quiet = sorted((one for one in self.tenants.values() if one.work is None), key=lambda one: one.used_at)
        for other in quiet:
            excess -= other.evict(min(excess, other.to_push))
        for other in quiet:
            excess -= other.evict(excess)
