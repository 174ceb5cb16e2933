"""A graphics card as a fluid: who computes, who waits for pages, and how fast each gets on.

Theory of operation. A tenant has a size (all of it is its working set) and perhaps work, in seconds of GPU time. Pages
that are not on the card have to come over the bus before the work that needs them goes on, and push out the pages of
those who have been quiet longest. Three rules give every speed:

    alone or side by side    k tenants with all their pages there share the GPU evenly. Together they get `gain` (a
                             little more than 1) done: one's kernels fill the gaps between the other's.
    loading                  a tenant that lacks pages loads them first, at the bus's speed, and computes nothing.
    crowded                  the active ones together are larger than the card. Each sweeps over its memory again and
                             again, and least-recently-used pages are always those that are needed next: every page of
                             every sweep comes over the bus. This is the thrashing that nvshare exists to prevent.

Between two changes all speeds are constant, so the card need only be looked at when something changes."""

from math import ceil

from nvshare.core.model import SECOND
from nvshare.record import Record

DONE = 1e-7
"""Seconds of work that count as none: the rounding of times to whole nanoseconds leaves such remains."""


class CardModel(Record, frozen=True):
    """What a card is like. Sizes in bytes, the bus in bytes per second, `sweep_s` in GPU seconds."""

    size: int
    bus: float
    gain: float
    sweep_s: float
    """How long a program computes until it has touched all of its memory once."""


class Tenant:
    """One program's memory and work on a card."""

    __slots__ = ("resident", "size", "used_at", "work")

    def __init__(self, size: int) -> None:
        self.size = size
        self.resident = 0.0
        self.work: float | None = None
        self.used_at = 0

    @property
    def is_loading(self) -> bool:
        return self.resident < self.size


class Card:
    """Tenants by key, at a time that only moves forward."""

    def __init__(self, model: CardModel) -> None:
        self.model = model
        self.now = 0
        self.tenants: dict[int, Tenant] = {}
        self.moved_bytes = 0.0
        self.busy_s = 0.0
        """GPU seconds of work done for all tenants."""
        self._active: list[Tenant] = []
        self._crowd_speed = 0.0
        """Of each active tenant while they do not fit together; 0: they do."""

    def add(self, key: int, size: int, *, is_loaded: bool = False) -> None:
        tenant = self.tenants[key] = Tenant(size)
        if is_loaded:
            tenant.resident = float(size)

    def remove(self, key: int) -> None:
        del self.tenants[key]
        self._note_active()

    def begin(self, now: int, key: int, work_s: float) -> None:
        """A tenant has work from now on."""
        self.advance(now)
        self.tenants[key].work = work_s
        self._note_active()

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
        """Who has no work left that had some."""
        return [key for key, tenant in self.tenants.items() if tenant.work is not None and tenant.work <= DONE]

    def next_change(self) -> int | None:
        """When some tenant has its pages or has finished, if nothing else happens before."""
        if not self._active:
            return None
        compute, load = self._speeds()
        waits = []
        for tenant in self._active:
            assert tenant.work is not None
            if tenant.is_loading and not self._crowd_speed:
                waits.append((tenant.size - tenant.resident) / load)
            else:
                waits.append(tenant.work / compute)
        return self.now + max(1, ceil(min(waits) * SECOND))

    def advance(self, now: int) -> None:
        """Let time pass; never further than `next_change`."""
        passed = (now - self.now) / SECOND
        self.now = now
        if passed <= 0 or not self._active:
            return
        compute, load = self._speeds()
        for tenant in self._active:
            assert tenant.work is not None
            if tenant.is_loading and not self._crowd_speed:
                self._load(tenant, load * passed)
            else:
                done = min(tenant.work, compute * passed)
                tenant.work -= done
                self.busy_s += done
                if self._crowd_speed:
                    self.moved_bytes += done * tenant.size / self.model.sweep_s
            tenant.used_at = now

    def _speeds(self) -> tuple[float, float]:
        """Work per second of each that computes, bytes per second of each that loads."""
        if self._crowd_speed:
            return self._crowd_speed, 0.0
        loading = sum(tenant.is_loading for tenant in self._active)
        computing = len(self._active) - loading
        gain = self.model.gain if computing > 1 else 1.0
        return gain / max(1, computing), self.model.bus / max(1, loading)

    def _note_active(self) -> None:
        self._active = [tenant for tenant in self.tenants.values() if tenant.work is not None]
        needed = sum(tenant.size for tenant in self._active)
        self._crowd_speed = 0.0
        if needed > self.model.size:
            gain = self.model.gain if len(self._active) > 1 else 1.0
            self._crowd_speed = 1 / (len(self._active) / gain + needed / self.model.sweep_s / self.model.bus)
            for tenant in self.tenants.values():
                tenant.resident = 0.0
            for tenant in self._active:
                tenant.resident = self.model.size * tenant.size / needed

    def _load(self, tenant: Tenant, loaded: float) -> None:
        loaded = min(loaded, tenant.size - tenant.resident)
        tenant.resident += loaded
        if tenant.size - tenant.resident < 1:
            tenant.resident = float(tenant.size)
        self.moved_bytes += loaded
        excess = sum(other.resident for other in self.tenants.values()) - self.model.size
        for other in sorted(self.tenants.values(), key=lambda other: other.used_at):
            if excess <= 0:
                return
            if other.work is None:
                evicted = min(other.resident, excess)
                other.resident -= evicted
                excess -= evicted
