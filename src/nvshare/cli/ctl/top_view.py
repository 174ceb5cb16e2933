"""What `top` shows, from a status to text. Pure: no terminal, no clock."""

from collections.abc import Callable
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nvshare import admin
from nvshare.cli.ctl.render import duration, gpu_short, in_order, rate, size, user_name
from nvshare.core.model import GIB, SECOND
from nvshare.core.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot
from nvshare.printable import printable
from nvshare.record import Record

MIN_WIDTH = 60
MIN_HEIGHT = 10

_FLEXIBLE = ("NAME", "WHO")
"""Columns that are cut on a narrow terminal; a number must not be cut."""
_STYLES = {
    "running": "green",
    "dropping": "magenta",
    "waiting": "yellow",
    "blocked": "red",
    "paused": "magenta",
    "silent": "red",
    "unscheduled": "green",
    "idle": "dim",
}


HELP = """\
q  quit           p  pause             ?  this help; any key: back
s  next sort      r  reverse order     /  filter while you type
arrows, page up, page down, home, end: scroll

STATE    running      has a lock           waiting N    at place N in the queue
         dropping     finishes its work    idle         has no work
         silent       was not heard from   unscheduled  scheduling is off
         blocked      no host memory       paused       by nvsharectl pause or an annotation
STARTS   a waiting client will probably start within this time
RAN      part of the time in which it wanted the GPU and had it; WAITED: the rest
bar      # or full: running clients    = or dark: cannot be evicted    x or grey: other programs
         |: the safe limit; beyond it the memory is kept free"""


class Row(Record, frozen=True):
    """A client at one GPU."""

    client: ClientSnapshot
    seat: SeatSnapshot
    number: int
    """Its place in the order of `nvsharectl status`: by GPU, then who runs, then who waits."""
    gpu: str


SORTS: dict[str, Callable[[Row], tuple[float, float]]] = {
    "state": lambda row: (row.number, 0),
    "memory": lambda row: (-row.seat.memory_allocated, 0),
    "name": lambda row: (0, 0),  # By the tie-breaker.
    "since": lambda row: (-row.seat.since_ns, 0),
    "turns": lambda row: (-row.seat.turns, 0),
    "ran": lambda row: (-row.seat.held_ns, 0),
    "waited": lambda row: (-row.seat.waited_ns, 0),
}


class View(Record, frozen=True):
    """What the user has chosen to see."""

    sort: str = "state"
    is_reversed: bool = False
    wanted: str = ""
    offset: int = 0
    is_paused: bool = False
    typing: str | None = None
    """A filter being typed; None: not typing."""
    trouble: str = ""
    is_ascii: bool = False
    is_help: bool = False


def rows(status: admin.Status, view: View) -> list[Row]:
    """The clients to show, in order."""
    gpus = {gpu.uuid: gpu_short(gpu) for gpu in status.node.gpus}
    every = [Row(client, seat, number, gpus[seat.gpu]) for number, (client, seat) in enumerate(in_order(status.node))]
    wanted = view.wanted if view.typing is None else view.typing
    chosen = [row for row in every if _is_wanted(row, wanted)]
    key = SORTS[view.sort]
    chosen.sort(key=lambda row: (key(row), row.client.name, row.client.id), reverse=view.is_reversed)
    return chosen


def screen(status: admin.Status, view: View, *, width: int, height: int) -> RenderableType:
    """Everything that fits, in lines: headline, GPUs, clients, help."""
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return Text(f"make the terminal at least {MIN_WIDTH}x{MIN_HEIGHT}: it is {width}x{height}")
    if view.is_help:
        return Text("\n".join(HELP.splitlines()[:height]))
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
            f"{row.gpu}  {admin.client_name(row.client.id)}  {printable(row.client.label)}"
            f"  {printable(row.client.name)}  {_state(seat)}"
            f"  since {duration(seat.since_ns)}  starts {_starts(seat)}"
            f"  memory {size(seat.memory_allocated)}{limit}  turns {seat.turns}"
            f"  ran {_share(seat.held_ns, seat)}  waited {_share(seat.waited_ns, seat)}"
            f"  moved in {size(seat.moved.in_bytes)}, out {size(seat.moved.out_bytes)}"
        )
    return made


def _is_wanted(row: Row, wanted: str) -> bool:
    client = row.client
    texts = (
        client.name,
        client.label,
        row.seat.gpu,
        row.seat.state,
        admin.client_name(client.id),
        user_name(client.uid),
    )
    return any(wanted.lower() in text.lower() for text in texts)


def _headline(status: admin.Status, view: View) -> Text:
    node = status.node
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"nvshare {status.version}", style="bold")
    text.append(f"  up {duration(int((status.now - status.started) * SECOND))}  policy {node.policy}")
    if not node.scheduling:
        text.append("  scheduling OFF: all programs may run", style="bold red")
    if node.settling:
        text.append("  settling after a restart", style="yellow")
    if view.is_paused:
        text.append("  PAUSED", style="bold reverse")
    if view.trouble:
        text.append(f"  {printable(view.trouble)}", style="bold red")
    return text


def _gpu_line(gpu: GpuSnapshot, width: int) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    uuid = gpu.uuid if width >= 130 else gpu.uuid[:12]
    if gpu.index is None:
        text.append(uuid, style="bold cyan")
    else:
        text.append(f"GPU {gpu.index} {printable(gpu.name.removeprefix('NVIDIA '))}", style="bold cyan")
        text.append(f"  {uuid}", style="dim")
    text.append(f"  {size(gpu.total_memory)}  {gpu.running} running, {gpu.waiting} waiting")
    text.append(f"  quantum {duration(gpu.quantum_ns)} {gpu.mode}")
    if gpu.waiting and gpu.quantum_left_ns is not None:
        text.append(f", {duration(gpu.quantum_left_ns)} left", style="yellow")
    if gpu.is_move_cost_measured:
        text.append(f"  moves {rate(GIB, gpu.move_cost_ns)}")
    if gpu.foreign_memory:
        text.append(f"  {size(gpu.foreign_memory)} of others", style="red")
    return text


def _bar(gpu: GpuSnapshot, width: int, *, is_ascii: bool) -> Text:
    """Running memory, memory that cannot move, other programs', free; the safe limit as a vertical line."""
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
    """As many columns as fit; the least important are left out first."""
    every: list[tuple[str, Literal["left", "right"], int]] = [
        ("CLIENT", "left", 0), ("NAME", "left", 0), ("USER", "left", 130), ("WHO", "left", 100), ("GPU", "left", 76),
        ("STATE", "left", 0), ("SINCE", "right", 0), ("STARTS", "right", 80), ("MEMORY", "right", 0),
        ("LIMIT", "right", 90), ("TURNS", "right", 68), ("RAN", "right", 84), ("WAITED", "right", 84),
        ("MOVED", "right", 140), ("PID", "right", 130),
    ]  # fmt: skip
    return [(name, justify) for name, justify, least in every if width >= least]


def _cells(row: Row) -> dict[str, Text]:
    client, seat = row.client, row.seat
    texts = {
        "CLIENT": admin.client_name(client.id),
        "NAME": printable(client.name),
        "WHO": printable(client.label),
        "USER": printable(user_name(client.uid)),
        "GPU": row.gpu,
        "SINCE": duration(seat.since_ns) if seat.since_ns else "-",
        "STARTS": _starts(seat),
        "MEMORY": size(seat.memory_allocated),
        "LIMIT": size(seat.limit) if seat.limit else "-",
        "TURNS": str(seat.turns),
        "RAN": _share(seat.held_ns, seat),
        "WAITED": _share(seat.waited_ns, seat),
        "MOVED": size(seat.moved.in_bytes + seat.moved.out_bytes),
        "PID": str(client.pid),
    }
    return {name: Text(text) for name, text in texts.items()} | {"STATE": Text(_state(seat), style=_STYLES[seat.state])}


def _state(seat: SeatSnapshot) -> str:
    if seat.state == "waiting":
        return f"waiting {seat.place}"
    return "running, idle" if seat.state == "running" and seat.is_idle else seat.state


def _starts(seat: SeatSnapshot) -> str:
    return "-" if seat.expected_start_ns is None else f"<{duration(seat.expected_start_ns)}"


def _share(part: int, seat: SeatSnapshot) -> str:
    whole = seat.held_ns + seat.waited_ns
    return f"{100 * part / whole:.0f}%" if whole else "-"


def _footer(view: View) -> Text:
    if view.typing is not None:
        return Text(f"filter: {printable(view.typing)}_   Enter: apply, Esc: cancel", style="reverse", no_wrap=True)
    filtered = f"  filter {printable(view.wanted)!r}" if view.wanted else ""
    order = f"{view.sort}{' reversed' if view.is_reversed else ''}"
    keys = "q quit  ? help  p pause  s sort  r reverse  / filter  arrows scroll"
    return Text(f"{keys}   by {order}{filtered}", style="dim", no_wrap=True, overflow="ellipsis")


def next_sort(sort: str) -> str:
    order = list(SORTS)
    return order[(order.index(sort) + 1) % len(order)]
