"""Status and events for people and for programs: tables, JSON, YAML. Pure: values in, text out."""

import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from nvshare import admin
from nvshare.core.model import GIB, MIB, SECOND
from nvshare.core.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot


def size(count: int) -> str:
    """Bytes for people."""
    if count >= GIB:
        return f"{count / GIB:.2f}Gi"
    return f"{count / MIB:.0f}Mi"


def duration(ns: int) -> str:
    """A span for people, two units at most."""
    seconds = ns // SECOND
    if seconds < 60:
        return f"{ns / SECOND:.1f}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def clean(text: str) -> str:
    """A name from outside without anything a terminal would obey."""
    return "".join(char if char.isprintable() else "?" for char in text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    lines = [list(head), *[list(map(clean, row)) for row in rows]]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def status_table(status: admin.Status, *, is_wide: bool) -> str:
    """What `nvsharectl status` shows."""
    node = status.node
    parts = [_headline(status), table(*_gpu_table(node.gpus))]
    if node.clients:
        parts.append(table(*_client_table(node.clients, is_wide)))
    else:
        parts.append("No clients.")
    return "\n\n".join(parts)


def status_values(status: admin.Status) -> dict[str, Any]:
    """What `-o json` and `-o yaml` show."""
    gpus = [_gpu_values(gpu, status) for gpu in status.node.gpus]
    return {
        "version": status.version,
        "started": status.started,
        "time": status.now,
        "scheduling": status.node.scheduling,
        "settling": status.node.settling,
        "policy": status.node.policy,
        "gpus": gpus,
    }


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


def step_line(line: admin.StepLine) -> str:
    """One line of `events` and `story`."""
    stamp = time.strftime("%H:%M:%S", time.localtime(line.time))
    return f"{stamp}.{int(line.time % 1 * 1000):03d}  {clean(line.text)}"


def _headline(status: admin.Status) -> str:
    node = status.node
    parts = [f"nvshare {status.version}", f"up {duration(int((status.now - status.started) * SECOND))}"]
    parts.append(f"policy {node.policy}")
    parts.append("anti-thrash on" if node.scheduling else "anti-thrash OFF: everybody may run")
    if node.settling:
        parts.append("settling after a restart")
    return " · ".join(parts)


def _gpu_table(gpus: Iterable[GpuSnapshot]) -> tuple[list[str], list[list[str]]]:
    head = ["GPU", "MEMORY", "RUNNING", "FREE", "OTHERS", "RUN", "WAIT", "QUANTUM", "LEFT"]
    rows = [
        [
            gpu.uuid,
            size(gpu.total_memory),
            size(gpu.running_memory_usage),
            size(gpu.available_memory),
            size(gpu.foreign_memory),
            str(gpu.running),
            str(gpu.waiting),
            f"{duration(gpu.quantum_ns)} {gpu.mode}",
            "-" if gpu.quantum_left_ns is None else duration(gpu.quantum_left_ns),
        ]
        for gpu in gpus
    ]
    return head, rows


def _client_table(clients: Iterable[ClientSnapshot], is_wide: bool) -> tuple[list[str], list[list[str]]]:
    head = ["CLIENT", "WHO", "NAME", "GPU", "STATE", "SINCE", "MEMORY", "LIMIT", "TURNS"]
    wide = ["PID", "HELD", "WAITED", "UNSWAPPABLE", "PRIORITY", "WEIGHT"]
    rows = []
    for client in clients:
        for seat in client.seats:
            row = [
                f"{client.id:04x}",
                client.label,
                client.name,
                seat.gpu if is_wide else seat.gpu[:12],
                _state(seat),
                duration(seat.since_ns) if seat.since_ns else "-",
                size(seat.memory_allocated),
                size(seat.limit) if seat.limit else "-",
                str(seat.turns),
            ]
            if is_wide:
                row += [str(client.pid), duration(seat.held_ns), duration(seat.waited_ns), size(seat.unswappable)]
                row += [str(client.priority), str(client.weight)]
            rows.append(row)
    return head + (wide if is_wide else []), rows


def _state(seat: SeatSnapshot) -> str:
    return f"waiting {seat.place}" if seat.state == "waiting" else seat.state


def _gpu_values(gpu: GpuSnapshot, status: admin.Status) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(gpu)
    values["clients"] = [
        _client_values(client, seat, status)
        for client in status.node.clients
        for seat in client.seats
        if seat.gpu == gpu.uuid
    ]
    return values


def _client_values(client: ClientSnapshot, seat: SeatSnapshot, status: admin.Status) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": f"{client.id:04x}",
        "group": client.group,
        "label": client.label,
        "name": client.name,
        "pid": client.pid,
        "priority": client.priority,
        "weight": client.weight,
    }
    values.update(msgspec.to_builtins(seat))
    ago = values.pop("last_scheduled_ns")
    values["last_scheduled_time"] = None if ago is None else status.now - ago / SECOND
    return values


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _yaml_value(value: Any, indent: int) -> str:
    if isinstance(value, (Mapping, list)) and value:
        return "\n" + as_yaml(value, indent + 1)
    return " " + as_yaml(value)


def _yaml_item(value: Any, indent: int) -> str:
    return " " + as_yaml(value, indent + 1).lstrip()
