"""A drawing as a list of shapes, written as SVG (text) or PNG (Pillow).

Two writers for four shapes need less code than a library that renders SVG, and both draw the same picture."""

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from nvshare.record import Record

FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
SHARPNESS = 2
"""Pixels of the PNG for each unit of the drawing."""


class Box(Record, frozen=True):
    x: float
    y: float
    width: float
    height: float
    fill: str
    hint: str = ""
    """The tooltip in an SVG viewer."""


class Line(Record, frozen=True):
    x1: float
    y1: float
    x2: float
    y2: float
    colour: str
    dashed: bool = False


class Words(Record, frozen=True):
    x: float
    y: float
    """Of the baseline."""
    text: str
    colour: str
    size: int = 12
    bold: bool = False
    anchor: str = "start"


Shape = Box | Line | Words


class Drawing(Record, frozen=True):
    width: int
    height: int
    title: str
    shapes: tuple[Shape, ...]


def svg(drawing: Drawing) -> str:
    """The drawing as a standalone SVG file."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {drawing.width} {drawing.height}"'
        f' width="{drawing.width}" height="{drawing.height}" font-family={quoteattr(FONT)}>\n'
        f'<title>{escape(drawing.title)}</title>\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
    )
    return head + "\n".join(_svg_shape(shape) for shape in drawing.shapes) + "\n</svg>\n"


def _svg_shape(shape: Shape) -> str:
    match shape:
        case Box():
            position = f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{shape.width:.2f}" height="{shape.height:.2f}"'
            hint = f"<title>{escape(shape.hint)}</title>" if shape.hint else ""
            return f"<rect {position} fill={quoteattr(shape.fill)}>{hint}</rect>"
        case Line():
            position = f'x1="{shape.x1:.2f}" y1="{shape.y1:.2f}" x2="{shape.x2:.2f}" y2="{shape.y2:.2f}"'
            dashes = ' stroke-dasharray="3 3"' if shape.dashed else ""
            return f"<line {position} stroke={quoteattr(shape.colour)}{dashes}/>"
        case Words():
            weight = ' font-weight="600"' if shape.bold else ""
            look = f'font-size="{shape.size}"{weight} text-anchor="{shape.anchor}" fill={quoteattr(shape.colour)}'
            return f'<text x="{shape.x:.2f}" y="{shape.y:.2f}" {look}>{escape(shape.text)}</text>'


def write_png(drawing: Drawing, path: Path) -> None:
    """The drawing as a PNG file."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (drawing.width * SHARPNESS, drawing.height * SHARPNESS), "white")
    pen = ImageDraw.Draw(image)
    for shape in drawing.shapes:
        match shape:
            case Box():
                right, bottom = shape.x + shape.width, shape.y + shape.height
                # Pillow includes the last pixel.
                corners = (shape.x * SHARPNESS, shape.y * SHARPNESS, right * SHARPNESS - 1, bottom * SHARPNESS - 1)
                if corners[2] >= corners[0] and corners[3] >= corners[1]:
                    pen.rectangle(corners, fill=shape.fill)
            case Line():
                ends = [value * SHARPNESS for value in (shape.x1, shape.y1, shape.x2, shape.y2)]
                pen.line(ends, fill=shape.colour, width=1)
            case Words():
                font = ImageFont.load_default(shape.size * SHARPNESS)
                anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
                stroke = 0.25 * SHARPNESS if shape.bold else 0
                position = (shape.x * SHARPNESS, shape.y * SHARPNESS)
                pen.text(position, shape.text, fill=shape.colour, font=font, anchor=anchor, stroke_width=stroke)
    image.save(path)
