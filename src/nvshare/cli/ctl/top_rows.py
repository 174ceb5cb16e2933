"""The clients in `top`: which are shown, in which order, and their lines. Pure: no terminal, no clock."""

from collections.abc import Callable
from typing import Literal

from rich.text import Text

from nvshare import admin
from nvshare.cli.ctl.render import duration, gpu_short, in_order
from nvshare.cli.ctl.share_cells import ShareCells, due_cell
from nvshare.cli.ctl.users import user_name
from nvshare.core.snapshots.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot
from nvshare.printable import printable
from nvshare.quantity import size
from nvshare.record import Record

GAP = "  "
LEAST_NAME = 16
"""Cells of NAME below which WHO is left out."""
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


class Row(Record, frozen=True):
    """A client at one GPU."""

    client: ClientSnapshot
    seat: SeatSnapshot
    number: int
    """Its place in the order of `nvsharectl status`: by GPU, then those that run, then those that wait."""
    gpu: GpuSnapshot
    core: str = "-"
    """What its group got of the GPU's time, and may have."""

    @property
    def key(self) -> tuple[str, int]:
        return self.gpu.uuid, self.client.id


SORTS: dict[str, Callable[[Row], tuple[float, float]]] = {
    "state": lambda row: (row.number, 0),
    "memory": lambda row: (-row.seat.memory_allocated, 0),
    "name": lambda row: (0, 0),  # By the tie-breaker.
    "since": lambda row: (-row.seat.since_ns, 0),
    "turns": lambda row: (-row.seat.turns, 0),
    "ran": lambda row: (-row.seat.held_ns, 0),
    "gpu": lambda row: (-row.seat.gpu_percent, 0),
    "waited": lambda row: (-row.seat.waited_ns, 0),
}


def next_sort(sort: str) -> str:
    order = list(SORTS)
    return order[(order.index(sort) + 1) % len(order)]


def rows(status: admin.Status, sort: str = "state", wanted: str = "", *, is_reversed: bool = False) -> list[Row]:
    """The clients to show: GPU by GPU, and those of a GPU in the order that is asked for."""
    gpus = {gpu.uuid: gpu for gpu in status.node.gpus}
    shares = ShareCells(status.node)
    every = [
        Row(client, seat, number, gpus[seat.gpu], shares.core(client, seat))
        for number, (client, seat) in enumerate(in_order(status.node))
    ]
    first: dict[str, int] = {}
    for row in every:
        first.setdefault(row.gpu.uuid, row.number)
    chosen = [row for row in every if _is_wanted(row, wanted)]
    key = SORTS[sort]
    chosen.sort(key=lambda row: (key(row), row.client.name, row.client.id), reverse=is_reversed)
    chosen.sort(key=lambda row: first[row.gpu.uuid])
    return chosen


def gpu_title(gpu: GpuSnapshot) -> str:
    """A GPU by index and model, or by the beginning of its UUID."""
    if gpu.index is None:
        return gpu.uuid[:12]
    return f"GPU {gpu.index} {printable(gpu.name.removeprefix('NVIDIA '))}"


def plain_lines(shown: list[Row]) -> list[str]:
    """One line for each client, for pipes and files."""
    made = []
    for row in shown:
        seat = row.seat
        limit = f"/{size(seat.limit)}" if seat.limit else ""
        core = "" if row.core == "-" else f"  core {row.core}"
        share = "" if seat.due_percent is None else f"  share {due_cell(seat)}"
        made.append(
            f"{gpu_short(row.gpu)}  {admin.client_name(row.client.id)}  {printable(row.client.label)}"
            f"  {printable(row.client.name)}  {_state(seat)}"
            f"  since {duration(seat.since_ns)}  starts {_starts(seat)}"
            f"  memory {size(seat.memory_allocated)}{limit}  turns {seat.turns}"
            f"  GPU {seat.gpu_percent:.0f}%"
            f"  ran {_share(seat.held_ns, seat)}  waited {_share(seat.waited_ns, seat)}"
            f"  moved in {size(seat.moved.in_bytes)}, out {size(seat.moved.out_bytes)}{share}{core}"
        )
    return made


def table(shown: list[Row], *, chosen: tuple[str, int] | None, width: int, lines: int, is_ascii: bool) -> list[Text]:
    """The header and as many lines as fit, around the chosen row. With several GPUs each has a heading."""
    has_headings = len({row.gpu.uuid for row in shown}) > 1
    entries: list[Row | str] = []
    for number, row in enumerate(shown):
        if has_headings and (number == 0 or shown[number - 1].gpu.uuid != row.gpu.uuid):
            entries.append(gpu_title(row.gpu))
        entries.append(row)
    most = max(1, lines - 1)
    at = next((number for number, entry in enumerate(entries) if isinstance(entry, Row) and entry.key == chosen), 0)
    first = max(0, min(at - most // 2, len(entries) - most))
    visible = entries[first : first + most]
    cells = {row.key: _cells(row) for row in visible if isinstance(row, Row)}
    columns = _columns(width, list(cells.values()))
    overflow: Literal["crop", "ellipsis"] = "crop" if is_ascii else "ellipsis"
    made = [_line({name: Text(name) for name, _, _ in columns}, columns, overflow, "bold reverse")]
    for entry in visible:
        if isinstance(entry, Row):
            made.append(_line(cells[entry.key], columns, overflow, "reverse" if entry.key == chosen else ""))
        else:
            made.append(Text(entry, style="bold cyan", no_wrap=True, overflow=overflow))
    return made


Column = tuple[str, Literal["left", "right"], int]
"""Name, side and width."""


def _line(cells: dict[str, Text], columns: list[Column], overflow: Literal["crop", "ellipsis"], style: str) -> Text:
    parts = []
    for name, side, width in columns:
        cell = cells[name].copy()
        cell.truncate(width, overflow=overflow)
        blanks = width - cell.cell_len
        cell.pad_left(blanks) if side == "right" else cell.pad_right(blanks)
        parts.append(cell)
    line = Text(GAP).join(parts)
    line.no_wrap = True
    line.stylize(style)
    return line


def _columns(width: int, cells: list[dict[str, Text]]) -> list[Column]:
    """As many columns as fit; the least important are left out first, WHO before the names are cut short."""
    every: list[tuple[str, Literal["left", "right"], int]] = [
        ("CLIENT", "left", 0), ("NAME", "left", 0), ("USER", "left", 80), ("WHO", "left", 120),
        ("STATE", "left", 0), ("SINCE", "right", 0), ("STARTS", "right", 76), ("MEMORY", "right", 0),
        ("UTIL", "right", 96), ("LIMIT", "right", 100), ("SHARE", "right", 100), ("CORE", "right", 100),
        ("TURNS", "right", 90), ("RAN", "right", 108), ("WAITED", "right", 108), ("MOVED", "right", 140),
        ("PID", "right", 130),
    ]  # fmt: skip
    unused = [name for name in ("SHARE", "CORE") if all(row[name].plain == "-" for row in cells)]
    kept = [(name, side) for name, side, least in every if width >= least and name not in unused]
    needed = {name: max([len(name), *(row[name].cell_len for row in cells)]) for name, _ in kept}
    for _ in range(2):
        flexible = [name for name, _ in kept if name in _FLEXIBLE]
        rest = width - len(GAP) * (len(kept) - 1) - sum(needed[name] for name, _ in kept if name not in _FLEXIBLE)
        if "WHO" in flexible and rest < len(flexible) * LEAST_NAME:
            kept = [column for column in kept if column[0] != "WHO"]
    widths = needed | {name: max(4, rest // len(flexible)) for name in flexible}
    return [(name, side, widths[name]) for name, side in kept]


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


def _cells(row: Row) -> dict[str, Text]:
    client, seat = row.client, row.seat
    texts = {
        "CLIENT": admin.client_name(client.id),
        "NAME": printable(client.name),
        "WHO": printable(client.label),
        "USER": printable(user_name(client.uid)),
        "SINCE": duration(seat.since_ns) if seat.since_ns else "-",
        "STARTS": _starts(seat),
        "MEMORY": size(seat.memory_allocated),
        "LIMIT": size(seat.limit) if seat.limit else "-",
        "SHARE": due_cell(seat),
        "CORE": row.core,
        "UTIL": f"{seat.gpu_percent:.0f}%",
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
    if seat.held_back_by and seat.state != "paused":
        return "held back"
    return "running, idle" if seat.state == "running" and seat.is_idle else seat.state


def _starts(seat: SeatSnapshot) -> str:
    return "-" if seat.expected_start_ns is None else f"<{duration(seat.expected_start_ns)}"


def _share(part: int, seat: SeatSnapshot) -> str:
    whole = seat.held_ns + seat.waited_ns
    return f"{100 * part / whole:.0f}%" if whole else "-"
