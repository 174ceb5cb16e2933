"""What `top` shows, from a status to text. Pure: no terminal, no clock."""

from collections.abc import Callable
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nvshare import admin
from nvshare.cli.render import clean, duration, size
from nvshare.core.model import SECOND
from nvshare.core.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot
from nvshare.record import Record

LEAST_WIDTH = 60
LEAST_HEIGHT = 10

_ORDER = {"running": 0, "dropping": 1, "waiting": 2, "idle": 3}
_FLEXIBLE = ("NAME", "WHO")
"""Columns that give way where it is narrow; a figure cut short would be a wrong figure."""
_STYLES = {"running": "green", "dropping": "magenta", "waiting": "yellow", "idle": "dim"}


class Row(Record, frozen=True):
    """A client at one GPU."""

    client: ClientSnapshot
    seat: SeatSnapshot


SORTS: dict[str, Callable[[Row], tuple[float, float]]] = {
    "state": lambda row: (_ORDER[row.seat.state], row.seat.place or -row.seat.since_ns),
    "memory": lambda row: (-row.seat.memory_allocated, 0),
    "name": lambda row: (0, 0),  # By the tie-breaker.
    "since": lambda row: (-row.seat.since_ns, 0),
    "turns": lambda row: (-row.seat.turns, 0),
    "ran": lambda row: (-row.seat.held_ns, 0),
    "waited": lambda row: (-row.seat.waited_ns, 0),
}


class View(Record, frozen=True):
    """How a person wants to see it."""

    sort: str = "state"
    is_reversed: bool = False
    wanted: str = ""
    offset: int = 0
    is_paused: bool = False
    typing: str | None = None
    """A filter being typed; None: not typing."""
    trouble: str = ""
    is_ascii: bool = False


def rows(status: admin.Status, view: View) -> list[Row]:
    """The clients to show, in order."""
    every = (Row(client, seat) for client in status.node.clients for seat in client.seats)
    chosen = [row for row in every if _is_wanted(row, view.wanted)]
    key = SORTS[view.sort]
    chosen.sort(key=lambda row: (key(row), row.client.name, row.client.id), reverse=view.is_reversed)
    return chosen


def screen(status: admin.Status, view: View, *, width: int, height: int) -> RenderableType:
    """Everything that fits, in lines: headline, GPUs, clients, help."""
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return Text(f"make the terminal at least {LEAST_WIDTH}x{LEAST_HEIGHT}: it is {width}x{height}")
    gpus = status.node.gpus
    room_for_gpus = max(1, (height - 6) // 2 // 2)
    parts: list[RenderableType] = [_headline(status, view)]
    for gpu in gpus[:room_for_gpus]:
        parts += [_gpu_line(gpu, width), _bar(gpu, width, is_ascii=view.is_ascii)]
    if len(gpus) > room_for_gpus:
        parts.append(Text(f"and {len(gpus) - room_for_gpus} more GPUs; nvsharectl status shows all", style="dim"))
    lines = height - 1 - 2 * min(len(gpus), room_for_gpus) - int(len(gpus) > room_for_gpus) - 2
    parts += [_table(rows(status, view), view, width, max(1, lines)), _footer(view)]
    return Group(*parts)


def plain_lines(status: admin.Status, view: View) -> list[str]:
    """One line for each client, for pipes and files."""
    made = []
    for row in rows(status, view):
        seat = row.seat
        limit = f"/{size(seat.limit)}" if seat.limit else ""
        made.append(
            f"{seat.gpu[:12]}  {row.client.id:04x}  {clean(row.client.label)}  {clean(row.client.name)}  {_state(seat)}"
            f"  since {duration(seat.since_ns)}  memory {size(seat.memory_allocated)}{limit}  turns {seat.turns}"
            f"  ran {_share(seat.held_ns, seat)}  waited {_share(seat.waited_ns, seat)}"
        )
    return made


def _is_wanted(row: Row, wanted: str) -> bool:
    texts = (row.client.name, row.client.label, row.seat.gpu, row.seat.state, f"{row.client.id:04x}")
    return any(wanted.lower() in text.lower() for text in texts)


def _headline(status: admin.Status, view: View) -> Text:
    node = status.node
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"nvshare {status.version}", style="bold")
    text.append(f"  up {duration(int((status.now - status.started) * SECOND))}  policy {node.policy}")
    if not node.scheduling:
        text.append("  anti-thrash OFF: everybody may run", style="bold red")
    if node.settling:
        text.append("  settling after a restart", style="yellow")
    if view.is_paused:
        text.append("  PAUSED", style="bold reverse")
    if view.trouble:
        text.append(f"  {clean(view.trouble)}", style="bold red")
    return text


def _gpu_line(gpu: GpuSnapshot, width: int) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(gpu.uuid if width >= 110 else gpu.uuid[:12], style="bold cyan")
    text.append(f"  {size(gpu.total_memory)}  {gpu.running} running, {gpu.waiting} waiting")
    text.append(f"  quantum {duration(gpu.quantum_ns)} {gpu.mode}")
    if gpu.waiting and gpu.quantum_left_ns is not None:
        text.append(f", {duration(gpu.quantum_left_ns)} left", style="yellow")
    if gpu.foreign_memory:
        text.append(f"  {size(gpu.foreign_memory)} of others", style="red")
    return text


def _bar(gpu: GpuSnapshot, width: int, *, is_ascii: bool) -> Text:
    """Running memory, memory that cannot move, other programs', free; the safe limit as a stroke."""
    run, fixed, other, free, stroke = "#=x.|" if is_ascii else "█▓▒░│"
    cells = max(10, width - 24)
    whole = max(1, gpu.total_memory)
    lengths = [
        round(cells * amount / whole)
        for amount in (gpu.running_memory_usage, gpu.unswappable_memory, gpu.foreign_memory)
    ]
    drawn = (run * lengths[0] + fixed * lengths[1] + other * lengths[2])[:cells].ljust(cells, free)
    at = min(cells - 1, round(cells * gpu.safe_limit / whole))
    text = Text(no_wrap=True)
    for index, char in enumerate(drawn):
        if index == at:
            text.append(stroke, style="bold")
        else:
            text.append(char, style={run: "green", fixed: "blue", other: "red"}.get(char, "dim"))
    used = gpu.running_memory_usage + gpu.unswappable_memory + gpu.foreign_memory
    text.append(f" {size(used)} / {size(gpu.safe_limit)} safe")
    return text


def _table(shown: list[Row], view: View, width: int, lines: int) -> RenderableType:
    if not shown:
        return Text("no client matches the filter" if view.wanted else "no clients", style="dim")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, expand=True, header_style="bold reverse")
    first = max(0, min(view.offset, len(shown) - lines + 1))
    cells = [_cells(row) for row in shown[first : first + lines - 1]]
    columns = _columns(width)
    for name, justify in columns:
        if name in _FLEXIBLE:
            table.add_column(name, justify=justify, overflow="ellipsis", no_wrap=True, ratio=1)
        else:
            needed = max(len(name), *(row[name].cell_len for row in cells))
            table.add_column(name, justify=justify, no_wrap=True, width=needed)
    for row in cells:
        table.add_row(*[row[name] for name, _ in columns])
    return table


def _columns(width: int) -> list[tuple[str, Literal["left", "right"]]]:
    """As many as the width allows; the least telling go first."""
    every: list[tuple[str, Literal["left", "right"], int]] = [
        ("CLIENT", "left", 0), ("NAME", "left", 0), ("WHO", "left", 100), ("GPU", "left", 76), ("STATE", "left", 0),
        ("SINCE", "right", 0), ("MEMORY", "right", 0), ("LIMIT", "right", 90), ("TURNS", "right", 68),
        ("RAN", "right", 84), ("WAITED", "right", 84), ("PID", "right", 110),
    ]  # fmt: skip
    return [(name, justify) for name, justify, least in every if width >= least]


def _cells(row: Row) -> dict[str, Text]:
    client, seat = row.client, row.seat
    texts = {
        "CLIENT": f"{client.id:04x}",
        "NAME": clean(client.name),
        "WHO": clean(client.label),
        "GPU": seat.gpu[:12],
        "SINCE": duration(seat.since_ns) if seat.since_ns else "-",
        "MEMORY": size(seat.memory_allocated),
        "LIMIT": size(seat.limit) if seat.limit else "-",
        "TURNS": str(seat.turns),
        "RAN": _share(seat.held_ns, seat),
        "WAITED": _share(seat.waited_ns, seat),
        "PID": str(client.pid),
    }
    return {name: Text(text) for name, text in texts.items()} | {"STATE": Text(_state(seat), style=_STYLES[seat.state])}


def _state(seat: SeatSnapshot) -> str:
    if seat.state == "waiting":
        return f"waiting {seat.place}"
    return "running, idle" if seat.state == "running" and seat.is_idle else seat.state


def _share(part: int, seat: SeatSnapshot) -> str:
    whole = seat.held_ns + seat.waited_ns
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _footer(view: View) -> Text:
    if view.typing is not None:
        return Text(f"filter: {clean(view.typing)}_   Enter: use, Esc: leave", style="reverse", no_wrap=True)
    filtered = f"  filter {clean(view.wanted)!r}" if view.wanted else ""
    order = f"{view.sort}{' reversed' if view.is_reversed else ''}"
    keys = "q quit  p pause  s sort  r reverse  / filter  arrows scroll"
    return Text(f"{keys}   by {order}{filtered}", style="dim", no_wrap=True, overflow="ellipsis")


def next_sort(sort: str) -> str:
    order = list(SORTS)
    return order[(order.index(sort) + 1) % len(order)]
