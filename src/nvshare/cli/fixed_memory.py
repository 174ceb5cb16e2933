"""Which programs have memory that cannot be evicted because of how they allocate, or that leaves as a whole. Pure."""

from nvshare.core.model import GIB
from nvshare.core.snapshots.snapshot import ClientSnapshot
from nvshare.quantity import size

SUSPENSIONS = {
    "checkpoint": "native memory, suspended between its turns (memory mode checkpoint)",
    "not suspended": "could not be suspended (memory mode checkpoint), so its memory stays native",
}


def fixed_memory(client: ClientSnapshot) -> int:
    """How much of the client's memory cannot be evicted, if that is more than 1 GiB and most of it; otherwise 0. Memory
    that the host has no room for could be evicted."""
    missing, fixed, swappable = (
        sum(getattr(seat, field) for seat in client.seats) for field in ("host_shortfall", "unswappable", "swappable")
    )
    pinned = min(fixed, missing)  # What counts as fixed only because the host has no room for it.
    fixed, swappable = fixed - pinned, swappable + pinned
    return fixed if fixed > GIB and fixed > swappable else 0


def memory_lines(client: ClientSnapshot) -> list[str]:
    """What `status` says of it."""
    fixed = fixed_memory(client)
    source = "it comes from pools, virtual memory management or native allocations"
    lines = [f"{size(fixed)} cannot be evicted: {source}"] if fixed else []
    return [*lines, *filter(None, [SUSPENSIONS.get(client.memory_mode)])]
