"""What `nvsharectl status` shows: tables, and below them what they have no column for. Pure: values in, text out."""

import textwrap

from nvshare import admin
from nvshare.cli.ctl.render import claim_table, client_table, duration, gpu_short, gpu_table, in_order
from nvshare.cli.fixed_memory import memory_lines
from nvshare.core.model import DEFAULT_WEIGHT, SECOND
from nvshare.core.queue.policies import weights_ignored
from nvshare.core.snapshots.snapshot import Snapshot
from nvshare.quantity import size

NOTED_PERCENT = 20
"""In percent of a GPU's time. A smaller difference is not reported, because NVML only takes samples."""
NO_CLIENTS = "No clients. Start a program with: nvshare run -- PROGRAM"


def status_table(status: admin.Status, *, is_wide: bool, width: int | None = None) -> str:
    """What `nvsharectl status` shows; in `width` columns if it is given."""
    node = status.node
    parts = [_headline(status)] + ([gpu_table(node, is_wide=is_wide, width=width)] if node.gpus else [])
    parts.append(client_table(node, is_wide=is_wide, width=width) if node.clients else NO_CLIENTS)
    if node.claims:
        parts.append(claim_table(node, is_wide=is_wide, width=width))
    if notes := [*unshared_notes(node), *weight_notes(node), *memory_notes(node)]:
        parts.append("\n".join(line for note in notes for line in textwrap.wrap(note, width or len(note))))
    return "\n\n".join(parts)


def _headline(status: admin.Status) -> str:
    node = status.node
    parts = [f"nvshare {status.version}", f"up {duration(int((status.now - status.started) * SECOND))}"]
    parts.append(f"policy {node.policy}")
    parts.append("scheduling on" if node.scheduling else "scheduling OFF: all programs may run")
    if node.settling:
        parts.append("settling after a restart")
    return " · ".join(parts)


def unshared_notes(node: Snapshot) -> list[str]:
    """Processes that use a GPU without a lock and are in no table, and work that no client accounts for."""
    found = [(gpu_short(gpu), ", ".join(map(str, gpu.foreign_pids))) for gpu in node.gpus if gpu.foreign_pids]
    notes = [f"GPU {gpu}: processes that are no clients and take no turns: {pids}." for gpu, pids in found]
    for gpu in node.gpus:
        more = (gpu.utilization_percent or 0) - (gpu.accounted_percent or 0)
        if more >= NOTED_PERCENT:
            notes.append(f"GPU {gpu_short(gpu)}: in {more:.0f} % of its time it does work that no client accounts for.")
    return notes


def weight_notes(node: Snapshot) -> list[str]:
    """Clients with a weight of their own, if the policy ignores it."""
    others = [client for client in node.clients if client.weight not in (0, DEFAULT_WEIGHT)]
    weighted = [f"{client.name} ({admin.client_name(client.id)})" for client in others]
    reason = weights_ignored(node.policy)
    return [f"{', '.join(weighted)}: the weight has no effect: {reason}."] if weighted and reason else []


def memory_notes(node: Snapshot) -> list[str]:
    """What the tables have no column for: memory that is on the host by limit or should be, that cannot be evicted,
    that the host cannot take, or that only page faults move."""
    kept = [
        f"{admin.client_name(client.id)}: {size(seat.on_host)} on the host by limit."
        for client, seat in in_order(node)
        if seat.on_host
    ]
    kept += [f"{admin.client_name(client.id)}: {line}." for client in node.clients for line in memory_lines(client)]
    by_faults: dict[str, list[str]] = {}
    for client, seat in in_order(node):
        if seat.not_moving:
            by_faults.setdefault(seat.not_moving, []).append(admin.client_name(client.id))
    kept += [f"{', '.join(names)}: no bulk moves: {reason}." for reason, names in by_faults.items()]
    kept += [
        f"{admin.client_name(client.id)}: {size(above)} above its limit stay on the card: {seat.not_moving}."
        for client, seat in in_order(node)
        if seat.not_moving and seat.limit and (above := seat.memory_allocated - seat.on_host - seat.limit) > 0
    ]
    return kept + [
        f"{admin.client_name(client.id)}: the host has no room for {size(seat.host_shortfall)} of its GPU memory;"
        " others wait. Raise its memory limit."
        for client, seat in in_order(node)
        if seat.host_shortfall
    ]
