"""How figures grow with the number of clients, as an SVG: axes in powers of ten, a small chart for each figure."""

from __future__ import annotations

from html import escape
from math import log10
from typing import Any

WIDE, HIGH, EDGE = 300, 180, 44
ACROSS = 3
FIGURES = ("per_second", "best_us", "longest_hold_ms", "memory_mib", "idle_cpu_percent", "seconds", "p50_ms")
COLOURS = ("#2e86ab", "#d1495b", "#3a7d44", "#f2c14e", "#7b4b94", "#555555", "#c2571a", "#1b998b")

Points = list[tuple[int, float]]


def draw(rows: list[dict[str, Any]]) -> str:
    """One chart for each figure that was measured with several numbers of clients."""
    charts: dict[str, dict[str, Points]] = {}
    for row in rows:
        for figure in FIGURES:
            if figure in row and row.get("clients"):
                line = str(row.get("step") or row.get("page") or row["bench"])
                chart = charts.setdefault(f"{row['bench']}: {figure}", {})
                chart.setdefault(line, []).append((row["clients"], float(row[figure])))
    charts = {name: lines for name, lines in charts.items() if any(len(points) > 1 for points in lines.values())}
    parts = [_chart(place, name, lines) for place, (name, lines) in enumerate(charts.items())]
    height = (len(charts) + ACROSS - 1) // ACROSS * (HIGH + EDGE) + EDGE
    size = f'width="{ACROSS * (WIDE + EDGE) + EDGE}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="10">\n' + "\n".join(
        [*parts, "</svg>\n"]
    )


def _chart(place: int, name: str, lines: dict[str, Points]) -> str:
    left = EDGE + place % ACROSS * (WIDE + EDGE)
    top = EDGE + place // ACROSS * (HIGH + EDGE)
    values = [value for points in lines.values() for _, value in points if value > 0] or [1.0]
    low, high = log10(min(values)), log10(max(values))
    high = max(high, low + 0.5)
    most = log10(max(clients for points in lines.values() for clients, _ in points))

    def spot(clients: int, value: float) -> str:
        up = (log10(max(value, min(values))) - low) / (high - low)
        return f"{left + log10(clients) / most * WIDE:.1f},{top + HIGH - 20 - up * (HIGH - 40):.1f}"

    parts = [
        f'<text x="{left}" y="{top}" font-weight="bold">{escape(name)}</text>',
        f'<rect x="{left}" y="{top + 8}" width="{WIDE}" height="{HIGH - 16}" fill="none" stroke="#cccccc"/>',
        f'<text x="{left + 4}" y="{top + 20}">{max(values):g}</text>',
        f'<text x="{left + 4}" y="{top + HIGH - 12}">{min(values):g}</text>',
        f'<text x="{left + WIDE - 60}" y="{top + HIGH + 4}">{10**most:.0f} clients</text>',
    ]
    for index, (line, points) in enumerate(lines.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(spot(clients, value) for clients, value in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if len(lines) > 1:
            height = top + 20 + 11 * index
            parts.append(f'<text x="{left + WIDE - 110}" y="{height}" fill="{colour}">{escape(line)}</text>')
    return "\n".join(parts)
