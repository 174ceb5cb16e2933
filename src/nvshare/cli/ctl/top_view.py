"""What `top` shows, from a status to text. Pure: no terminal, no clock."""

import textwrap
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from nvshare import admin
from nvshare.cli.ctl.render import accounted, duration, rate
from nvshare.cli.ctl.top_rows import Row, gpu_title, rows, table
from nvshare.cli.ctl.top_users import user_lines
from nvshare.core.model import GIB, SECOND
from nvshare.core.snapshots.snapshot import GpuSnapshot
from nvshare.printable import printable
from nvshare.quantity import size
from nvshare.record import Record

MIN_WIDTH = 60
MIN_HEIGHT = 10

HELP = """\
q  quit             p  pause             ?  this help; any key: back
s  next sort        r  reverse order     /  filter while you type
up, down, page up, page down, home, end: choose a client
Enter: the story of the client, why it runs or waits
u: sums per user instead of clients, and back

STATE    running      has a lock           waiting N    at place N in the queue
         dropping     finishes its work    idle         has no work
         silent       was not heard from   unscheduled  scheduling is off
         blocked      no host memory       paused       gets no turns
STARTS   a waiting client will probably start within this time
busy     the clients' part of the utilisation that NVML reports
SHARE    had in the last 10 s, of its due by weight; CORE of its core limit
RAN      part of the time in which it wanted the GPU and had it; WAITED the rest
bar      # or full: running clients         = or dark: cannot be evicted
         x or grey: other programs          |: the safe limit"""


class View(Record, frozen=True):
    """What the user has chosen to see."""

    sort: str = "state"
    is_reversed: bool = False
    by_user: bool = False
    """Sums per user instead of clients."""
    wanted: str = ""
    chosen: tuple[str, int] | None = None
    """The row that the user is at: a GPU and a client."""
    is_paused: bool = False
    typing: str | None = None
    """A filter being typed; None: not typing."""
    trouble: str = ""
    is_ascii: bool = False
    is_help: bool = False
    story: tuple[str, ...] | None = None
    """The lines of the story that is shown instead of all."""
    story_end: int = 0
    """So many of its lines are below the screen."""


def shown_rows(status: admin.Status, view: View) -> list[Row]:
    """The clients to show, in order."""
    wanted = view.wanted if view.typing is None else view.typing
    return rows(status, view.sort, wanted, is_reversed=view.is_reversed)


def screen(status: admin.Status, view: View, *, width: int, height: int) -> RenderableType:
    """Everything that fits, in lines: headline, GPUs, clients, help."""
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return Text(f"make the terminal at least {MIN_WIDTH}x{MIN_HEIGHT}: it is {width}x{height}")
    if view.is_help:
        return Text("\n".join(HELP.splitlines()[:height]))
    if view.story is not None:
        return _story(view.story, view.story_end, width, height)
    gpus = _gpu_lines(status.node.gpus, width, height, is_ascii=view.is_ascii)
    parts: list[RenderableType] = [_headline(status, view), *gpus]
    shown = shown_rows(status, view)
    lines = max(2, height - 2 - len(gpus))
    if shown and view.by_user:
        users = user_lines(shown, view.sort, is_reversed=view.is_reversed, width=width)[:lines]
        parts += [Text(line, style="" if at else "bold reverse", no_wrap=True) for at, line in enumerate(users)]
    elif shown:
        parts += table(shown, chosen=view.chosen, width=width, lines=lines, is_ascii=view.is_ascii)
    else:
        parts.append(Text("no client matches the filter" if view.wanted or view.typing else "no clients", style="dim"))
    return Group(*parts, _footer(view))


def _story(lines: tuple[str, ...], end: int, width: int, height: int) -> RenderableType:
    wrapped = [part for line in lines for part in textwrap.wrap(line, width, subsequent_indent="    ") or [""]]
    last = max(min(len(wrapped), height - 1), len(wrapped) - end)
    keys = Text("any other key: back   arrows, page up, page down: scroll", style="dim", no_wrap=True)
    return Group(*(Text(line, no_wrap=True) for line in wrapped[max(0, last - (height - 1)) : last]), keys)


def _gpu_lines(gpus: tuple[GpuSnapshot, ...], width: int, height: int, *, is_ascii: bool) -> list[Text]:
    """Two lines for each GPU; one, if they would take more than half of the screen."""
    most = max(2, (height - 6) // 2)
    if 2 * len(gpus) <= most:
        return [line for gpu in gpus for line in (_gpu_line(gpu, width), _bar(gpu, width, is_ascii=is_ascii))]
    made = [_short_gpu_line(gpu, width, is_ascii=is_ascii) for gpu in gpus[:most]]
    if len(gpus) > most:
        made.append(Text(f"and {len(gpus) - most} more GPUs; nvsharectl status shows all", style="dim"))
    return made


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
    """The GPU's parts that fit, in order; the ones that matter least are left out first."""
    quantum = f"quantum {duration(gpu.quantum_ns)} {gpu.mode}"
    if gpu.waiting and gpu.quantum_left_ns is not None:
        quantum += f", {duration(gpu.quantum_left_ns)} left"
    others = f"{size(gpu.foreign_memory)} of others" if gpu.foreign_memory else ""
    uuid = gpu.uuid if width >= 130 else gpu.uuid[:12]
    parts = {
        "title": Text(uuid if gpu.index is None else gpu_title(gpu), style="bold cyan"),
        "uuid": Text("" if gpu.index is None else uuid, style="dim"),
        "counts": Text(f"{size(gpu.total_memory)}  {gpu.running} running, {gpu.waiting} waiting"),
        "use": Text(f"busy {use}" if (use := accounted(gpu)) else ""),
        "quantum": Text(quantum),
        "moves": Text(f"moves {rate(GIB, gpu.move_cost_ns)}" if gpu.is_move_cost_measured else ""),
        "others": Text(others, style="red"),
    }
    for least in ("moves", "uuid", "use", "quantum", "others"):
        if Text("  ").join(part for part in parts.values() if part).cell_len > width:
            del parts[least]
    line = Text("  ").join(part for part in parts.values() if part)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _short_gpu_line(gpu: GpuSnapshot, width: int, *, is_ascii: bool) -> Text:
    title = Text(gpu_title(gpu), style="bold cyan")
    title.truncate(22, overflow="crop", pad=True)
    counts = f"  {gpu.running} run {gpu.waiting} wait"
    line = title + Text(" ") + _bar(gpu, width - 23 - max(16, len(counts)), is_ascii=is_ascii) + Text(counts)
    line.no_wrap = True
    return line


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


def _footer(view: View) -> Text:
    if view.typing is not None:
        return Text(f"filter: {printable(view.typing)}_   Enter: apply, Esc: cancel", style="reverse", no_wrap=True)
    filtered = f"  filter {printable(view.wanted)!r}" if view.wanted else ""
    order = f"{view.sort}{' reversed' if view.is_reversed else ''}{', per user' if view.by_user else ''}"
    keys = "q quit  ? help  p pause  s sort  r reverse  / filter  Enter story"
    overflow: Literal["crop", "ellipsis"] = "crop" if view.is_ascii else "ellipsis"
    return Text(f"by {order}{filtered}   {keys}", style="dim", no_wrap=True, overflow=overflow)
