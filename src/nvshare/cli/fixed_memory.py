"""Which programs have memory that cannot be evicted because of how they allocate. Pure."""

from nvshare.core.model import GIB
from nvshare.core.snapshot import ClientSnapshot


def fixed_memory(client: ClientSnapshot) -> int:
    """How much of the client's memory cannot be evicted, if that is more than 1 GiB and most of it; otherwise 0. Memory
    that the host has no room for could be evicted."""
    missing, fixed, swappable = (
        sum(getattr(seat, field) for seat in client.seats) for field in ("host_shortfall", "unswappable", "swappable")
    )
    pinned = min(fixed, missing)  # What counts as fixed only because the host has no room for it.
    fixed, swappable = fixed - pinned, swappable + pinned
    return fixed if fixed > GIB and fixed > swappable else 0
