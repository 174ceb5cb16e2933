"""What doctor says of a program that shares a GPU."""

from collections.abc import Iterator

from nvshare.cli.doctor.finding import Finding
from nvshare.cli.fixed_memory import fixed_memory
from nvshare.core.snapshots.snapshot import ClientSnapshot
from nvshare.quantity import amount


def check_client(client: ClientSnapshot) -> Iterator[Finding]:
    """A program whose memory cannot be evicted, for want of host memory or because of how it allocates; or is moved by
    page faults alone."""
    if missing := sum(seat.host_shortfall for seat in client.seats):
        yield Finding(
            "warn",
            f"the host has no room for {amount(missing)} of GPU memory of {client.name} ({client.label})",
            "raise its memory limit by that much; other programs wait instead of taking turns with it",
        )
    if fixed := fixed_memory(client):
        yield Finding(
            "warn",
            f"{amount(fixed)} of GPU memory of {client.name} ({client.label}) cannot be evicted: it comes from"
            " pools, virtual memory management or native allocations",
            "docs/hardware.md names the settings of each framework",
        )
    for reason in sorted({seat.not_moving for seat in client.seats if seat.not_moving}):
        yield Finding("info", f"{client.name} ({client.label}): no bulk moves: {reason}")
