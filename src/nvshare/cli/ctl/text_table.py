"""Tables of text that fit on a terminal. Pure."""

import unicodedata
from collections.abc import Iterable, Sequence

from nvshare.printable import printable


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int | None = None,
    drop: Sequence[str] = (),
    cut: Sequence[str] = (),
) -> str:
    """Columns as wide as their widest cell. If they are wider than `width`, columns of `drop` are left out until they
    fit, the first one first. Then the cells of `cut` are shortened."""
    columns = [
        [name, *column] for name, column in zip(head, zip(*map(_printable_row, rows), strict=True), strict=False)
    ]
    columns = columns or [[name] for name in head]
    if width is not None:
        columns = _that_fit(columns, width, drop)
    for name in cut:
        if width is not None and _total(columns) > width:
            columns = [_cut(column, _total(columns) - width) if column[0] == name else column for column in columns]
    padded = [[cell + " " * (_widest(column) - width_of(cell)) for cell in column] for column in columns]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def _that_fit(columns: list[list[str]], width: int, drop: Sequence[str]) -> list[list[str]]:
    """Without the columns of `drop` that there is no room for; a narrow one may come back when a wide one is gone."""
    left_out: list[str] = []

    def kept() -> list[list[str]]:
        return [column for column in columns if column[0] not in left_out]

    for name in drop:
        if _total(kept()) > width:
            left_out.append(name)
    for name in reversed(left_out):
        left_out.remove(name)
        if _total(kept()) > width:
            left_out.append(name)
    return kept()


def _printable_row(row: Sequence[str]) -> list[str]:
    return list(map(printable, row))


def _widest(column: Sequence[str]) -> int:
    return max(map(width_of, column))


def _total(columns: Sequence[Sequence[str]]) -> int:
    return sum(map(_widest, columns)) + 2 * (len(columns) - 1)


def _cut(column: list[str], excess: int) -> list[str]:
    """The column, narrower by `excess` but not narrower than its head."""
    most = max(width_of(column[0]), _widest(column) - excess)
    return [shortened(cell, most) for cell in column]


def shortened(text: str, width: int) -> str:
    """A text that is cut ends with `~`."""
    return text if width_of(text) <= width else _beginning(text, width - 1) + "~"


def _beginning(text: str, width: int) -> str:
    kept = ""
    for char in text:
        if width_of(kept + char) > width:
            break
        kept += char
    return kept


def width_of(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
