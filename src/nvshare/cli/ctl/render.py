"""GPUs, clients and events for people and for programs: tables, JSON, YAML. Pure: values in, text out."""

import textwrap
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from nvshare import admin
from nvshare.cli.ctl.share_cells import ShareCells, due_cell
from nvshare.cli.ctl.text_table import shortened, table, width_of
from nvshare.cli.ctl.users import user_name
from nvshare.core.limits.group_names import POD_PREFIX
from nvshare.core.model import GIB, SECOND
from nvshare.core.snapshots.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot, Snapshot
from nvshare.printable import printable
from nvshare.quantity import size


def duration(ns: int) -> str:
    """A duration for people, in at most two units."""
    seconds = ns // SECOND
    if seconds < 60:
        return f"{ns / SECOND:.1f}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def rate(count: int, ns: int) -> str:
    """Bytes in so much time as a bandwidth; `-` if there was none."""
    return f"{count / ns:.3g}GB/s" if count and ns else "-"


def move_cost(gpu: GpuSnapshot) -> str:
    """At what rate memory is taken to move to a GPU, and how that is known."""
    return f"{rate(GIB, gpu.move_cost_ns)} {'measured' if gpu.is_move_cost_measured else 'assumed'}"


def accounted(gpu: GpuSnapshot) -> str:
    """The part of the time in which clients were busy, and NVML's utilisation; empty if NVML reports none."""
    if gpu.accounted_percent is None or gpu.utilization_percent is None:
        return ""
    return f"{gpu.accounted_percent:.0f}% of {gpu.utilization_percent:.0f}%"


def as_json(values: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(values), indent=2).decode()


def as_yaml(values: Any, indent: int = 0) -> str:
    """The YAML of plain values; every text is written as JSON writes it, which YAML reads the same."""
    pad = "  " * indent
    if isinstance(values, Mapping) and values:
        return "\n".join(f"{pad}{key}:{_yaml_value(value, indent)}" for key, value in values.items())
    if isinstance(values, list) and values:
        return "\n".join(f"{pad}-{_yaml_item(value, indent)}" for value in values)
    return f"{pad}{msgspec.json.encode(values).decode()}"


def step_line(line: admin.StepLine, width: int | None = None) -> str:
    """One line of `events` and `story`; in a terminal of `width` columns it is wrapped."""
    stamp = time.strftime("%H:%M:%S", time.localtime(line.time))
    return wrapped(f"{stamp}.{int(line.time % 1 * 1000):03d}  {printable(line.text)}", width, indent=14)


def wrapped(text: str, width: int | None, *, indent: int = 0) -> str:
    """A sentence for a terminal of `width` columns; None: as it is, for a program that reads it."""
    return text if width is None else "\n".join(textwrap.wrap(text, width, subsequent_indent=" " * indent))


def gpu_table(node: Snapshot, *, is_wide: bool = False, width: int | None = None) -> str:
    """The GPUs. On a narrow terminal the UUID is shortened or left out; `-o wide` shows it whole."""
    head = ["GPU", "MODEL", "UUID", "MEMORY", "RUNNING", "FREE", "OTHERS", "RUN", "WAIT", "QUANTUM", "LEFT"]
    head += ["ACCOUNTED", "MOVES"] if is_wide else []
    rows = [
        [
            _index(gpu),
            gpu.name.removeprefix("NVIDIA ") or "-",
            gpu.uuid,
            size(gpu.total_memory),
            size(gpu.running_memory_usage),
            size(gpu.available_memory),
            size(gpu.foreign_memory),
            str(gpu.running),
            str(gpu.waiting),
            f"{duration(gpu.quantum_ns)} {gpu.mode}",
            duration(gpu.quantum_left_ns) if gpu.waiting and gpu.quantum_left_ns is not None else "-",
            *([accounted(gpu) or "-", move_cost(gpu)] if is_wide else []),
        ]
        for gpu in node.gpus
    ]
    if all(gpu.index is None for gpu in node.gpus):  # NVML knows none of them
        head, rows = ["GPU", *head[3:]], [row[2:] for row in rows]
    whole = table(head, rows)
    if is_wide or width is None or max(map(width_of, whole.splitlines())) <= width:
        return whole
    at = head.index("UUID") if "UUID" in head else 0
    rows = [[*row[:at], row[at][: admin.SHORT_UUID], *row[at + 1 :]] for row in rows]
    return table(head, rows, width=width, drop=("OTHERS", "UUID", "LEFT", "RUNNING", "MODEL"))


WIDE = [
    "PID", "UTIL", "GROUP UTIL", "USER UTIL", "GPU TIME", "HELD", "WAITED", "UNSWAPPABLE", "USED", "NEED", "MOVED IN",
    "AT", "MOVED OUT", "PRIORITY", "WEIGHT", "SHARE", "CORE",
]  # fmt: skip


def client_table(node: Snapshot, *, is_wide: bool = False, width: int | None = None) -> str:
    """The clients, by GPU; of each GPU those that run, then those that wait, by place, then the others."""
    head = ["CLIENT", "USER", "WHO", "NAME", "GPU", "STATE", "SINCE", "STARTS", "MEMORY", "LIMIT", "TURNS"]
    shares = ShareCells(node)
    gpus = {gpu.uuid: gpu for gpu in node.gpus}
    rows = []
    for client, seat in in_order(node):
        row = [
            admin.client_name(client.id),
            user_name(client.uid),
            client.label,
            client.name,
            seat.gpu if is_wide else gpu_short(gpus[seat.gpu]),
            _state(seat),
            duration(seat.since_ns) if seat.since_ns else "-",
            "-" if seat.expected_start_ns is None else f"<{duration(seat.expected_start_ns)}",
            size(seat.memory_allocated),
            size(seat.limit) if seat.limit else "-",
            str(seat.turns),
        ]
        if is_wide:
            row += [str(client.pid), f"{seat.gpu_percent:.0f}%", shares.group(client, seat), shares.user(client, seat)]
            row += [*map(duration, (seat.gpu_ns, seat.held_ns, seat.waited_ns)), size(seat.unswappable)]
            row += ["-" if seat.working_set is None else size(seat.working_set), size(seat.need)]
            row += [size(seat.moved.in_bytes), rate(seat.moved.in_bytes, seat.moved.in_ns), size(seat.moved.out_bytes)]
            row += [str(client.priority), str(client.weight), due_cell(seat), shares.core(client, seat)]
        rows.append(row)
    if is_wide:
        return table(head + WIDE, rows)
    has_pods = any(client.group.startswith(POD_PREFIX) for client in node.clients)
    return _narrow_clients(head, rows, width, has_pods=has_pods)


def _narrow_clients(head: list[str], rows: list[list[str]], width: int | None, *, has_pods: bool) -> str:
    """The table of clients in `width` columns: first very long names are cut, then columns are left out. USER says to
    whom a program belongs, in pods WHO does."""
    whole = table(head, rows)
    if width is None or max(map(width_of, whole.splitlines())) <= width:
        return whole
    at = head.index("NAME")
    rows = [[*row[:at], shortened(row[at], max(16, width // 4)), *row[at + 1 :]] for row in rows]
    drop = ["TURNS", *(("USER",) if has_pods else ("WHO",)), "LIMIT", "STARTS", "USER", "WHO"]
    if all(row[head.index("LIMIT")] == "-" for row in rows):
        drop.insert(0, "LIMIT")
    return table(head, rows, width=width, drop=list(dict.fromkeys(drop)), cut=("NAME",))


def claim_table(node: Snapshot, *, is_wide: bool = False, width: int | None = None) -> str:
    """The ResourceClaims of the node, by GPU: what each allows its pods together, and what these use."""
    gpus = {gpu.uuid: gpu for gpu in node.gpus}
    rows = [
        [
            claim.label,
            claim.gpu if is_wide or claim.gpu not in gpus else gpu_short(gpus[claim.gpu]),
            size(claim.limit),
            size(claim.used),
            ", ".join(claim.pods) or "-",
        ]
        for claim in node.claims
    ]
    return table(["CLAIM", "GPU", "LIMIT", "USED", "PODS"], rows, width=None if is_wide else width, cut=("PODS",))


_STATES = ("running", "dropping", "waiting", "blocked", "paused", "silent", "unscheduled", "idle")
_STATE_ORDER = {state: number for number, state in enumerate(_STATES)}


def in_order(node: Snapshot) -> list[tuple[ClientSnapshot, SeatSnapshot]]:
    """The clients at each GPU in the order in which people look for them."""
    places = {gpu.uuid: number for number, gpu in enumerate(sorted(node.gpus, key=_gpu_order))}
    pairs = [(client, seat) for client in node.clients for seat in client.seats]
    return sorted(pairs, key=lambda pair: (places[pair[1].gpu], _STATE_ORDER[pair[1].state], pair[1].place))


def _gpu_order(gpu: GpuSnapshot) -> tuple[bool, int]:
    return gpu.index is None, gpu.index or 0


def gpu_short(gpu: GpuSnapshot) -> str:
    """A GPU in one cell: its index if NVML knows it."""
    return gpu.uuid[: admin.SHORT_UUID] if gpu.index is None else str(gpu.index)


def _index(gpu: GpuSnapshot) -> str:
    return "-" if gpu.index is None else str(gpu.index)


def _state(seat: SeatSnapshot) -> str:
    if seat.state != "waiting":
        return "held back" if seat.held_back_by and seat.state != "paused" else seat.state
    return f"waiting {seat.place}{', gang' if seat.together else ''}"


def _yaml_value(value: Any, indent: int) -> str:
    if isinstance(value, (Mapping, list)) and value:
        return "\n" + as_yaml(value, indent + 1)
    return " " + as_yaml(value)


def _yaml_item(value: Any, indent: int) -> str:
    return " " + as_yaml(value, indent + 1).lstrip()
