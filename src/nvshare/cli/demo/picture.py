"""The picture of which program used the GPU when: panels of lanes on one time axis. Pure: numbers in, shapes out."""

from nvshare.cli.demo.drawing import Box, Drawing, Line, Shape, Words
from nvshare.record import Record

WIDTH = 1000
LEFT = 130
RIGHT = 30
LANE = 22
BAR = 14
TITLE = 26
GAP = 16
TOP = 54
AXIS = 34

INK = "#17211b"
FAINT = "#66736b"
RULE = "#dde3df"
WORK = "#1a9a56"
MOVE = "#e0662f"
STOP = "#b3261e"


class Stretch(Record, frozen=True):
    """A stretch of work on the GPU; `moving` is the part of it spent moving memory, 0 to 1."""

    begin_s: float
    end_s: float
    moving: float = 0.0


class PictureLane(Record, frozen=True):
    name: str
    stretches: tuple[Stretch, ...]
    note: str = ""
    """The text at the end of the lane, if the program failed."""


class Panel(Record, frozen=True):
    title: str
    result: str
    length_s: float
    lanes: tuple[PictureLane, ...]
    is_cut: bool = False
    """It was stopped before its end."""


def draw(title: str, panels: tuple[Panel, ...]) -> Drawing:
    """All panels, the longest as wide as the picture."""
    longest = max((panel.length_s for panel in panels), default=1.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / longest
    shapes: list[Shape] = [
        Words(16, 26, title, INK, 16, bold=True),
        Box(16, 36, 12, 9, WORK),
        Words(33, 45, "computes", FAINT),
        Box(106, 36, 12, 9, MOVE),
        Words(123, 45, "moves memory in and out", FAINT),
    ]
    y = float(TOP)
    for panel in panels:
        y = _panel(panel, y, scale, shapes)
    _axis(longest, scale, y, shapes)
    return Drawing(WIDTH, int(y + AXIS), title, tuple(shapes))


def _panel(panel: Panel, y: float, scale: float, shapes: list[Shape]) -> float:
    shapes.append(Words(16, y + 16, panel.title, INK, 13, bold=True))
    shapes.append(Words(WIDTH - RIGHT, y + 16, panel.result, STOP if panel.is_cut else INK, 13, anchor="end"))
    y += TITLE
    for lane in panel.lanes:
        _lane(lane, y, scale, shapes)
        y += LANE
    end = LEFT + panel.length_s * scale
    top = y - LANE * len(panel.lanes)
    shapes.append(Line(end, top, end, y - 4, STOP if panel.is_cut else INK, dashed=panel.is_cut))
    return y + GAP


def _lane(lane: PictureLane, y: float, scale: float, shapes: list[Shape]) -> None:
    middle = y + BAR / 2
    shapes.append(Words(LEFT - 10, middle + 4, lane.name, INK, anchor="end"))
    shapes.append(Line(LEFT, middle, WIDTH - RIGHT, middle, RULE))
    last = float(LEFT)
    for stretch in lane.stretches:
        x = LEFT + stretch.begin_s * scale
        width = max(0.5, (stretch.end_s - stretch.begin_s) * scale)
        hint = (
            f"{lane.name}: {stretch.begin_s:.1f} s to {stretch.end_s:.1f} s, {stretch.moving:.0%} of it moving memory"
        )
        moving = BAR * stretch.moving
        shapes.append(Box(x, y, width, BAR - moving, WORK, hint))
        if moving > 0.3:
            shapes.append(Box(x, y + BAR - moving, width, moving, MOVE, hint))
        last = max(last, x + width)
    if lane.note:
        shapes.append(Words(last + 8, middle + 4, lane.note, STOP))


def _axis(longest: float, scale: float, y: float, shapes: list[Shape]) -> None:
    step = _tick(longest)
    shapes.append(Line(LEFT, y, WIDTH - RIGHT, y, FAINT))
    count = int(longest / step)
    for index in range(count + 1):
        x = LEFT + index * step * scale
        shapes.append(Line(x, y, x, y + 5, FAINT))
        shapes.append(Words(x, y + 19, f"{index * step:g} s", FAINT, anchor="middle"))


def _tick(longest: float) -> float:
    """A round step that gives five to twelve ticks."""
    step = 0.001
    while True:
        for factor in (1, 2, 5):
            if longest / (step * factor) <= 12:
                return step * factor
        step *= 10
