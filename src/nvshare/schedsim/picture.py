"""What each job did when, as lines of text or as an SVG file."""

from collections.abc import Sequence
from html import escape

from nvshare.schedsim.machine import Outcome
from nvshare.schedsim.program import Doing

SIGNS: dict[Doing, str] = {"starting": ".", "thinking": ".", "waiting": "-", "loading": "~", "computing": "#"}
COLOURS: dict[Doing, str] = {
    "starting": "#d9d9d9",
    "thinking": "#d9d9d9",
    "waiting": "#f2c14e",
    "loading": "#d1495b",
    "computing": "#2e86ab",
}
LEGEND = "# computes   ~ moves memory   - waits for its turn   . on the CPU"
LANE = 22
NAME = 110


def lanes(outcome: Outcome, width: int = 96, until_s: float | None = None) -> list[str]:
    """One line for each job; a column shows what the job did for most of that time."""
    end = until_s or outcome.makespan_s
    lines = []
    for index, job in enumerate(outcome.jobs, 1):
        shares: list[dict[Doing, float]] = [{} for _ in range(width)]
        for stretch in outcome.stretches:
            if stretch.job == index:
                _spread(shares, stretch.begin / end * width, stretch.end / end * width, stretch.doing)
        signs = [SIGNS[max(share, key=lambda doing: share[doing])] if share else " " for share in shares]
        lines.append(f"{job.name:12.12s} {''.join(signs).rstrip()}")
    return [*lines, f"{'':12s} 0 s{f'{end:.0f} s':>{width - 3}s}", f"{'':12s} {LEGEND}"]


def _spread(shares: list[dict[Doing, float]], begin: float, end: float, doing: Doing) -> None:
    for column in range(int(begin), min(len(shares), int(end) + 1)):
        part = min(end, column + 1) - max(begin, column)
        if part > 0:
            shares[column][doing] = shares[column].get(doing, 0.0) + part


def svg(titled: Sequence[tuple[str, Outcome]], width: int = 1000) -> str:
    """Several outcomes above each other, on one scale of time."""
    end = max(outcome.makespan_s for _, outcome in titled)
    parts: list[str] = []
    top = 10
    for title, outcome in titled:
        parts.append(f'<text x="4" y="{top + 14}" font-weight="bold">{escape(title)}</text>')
        top += LANE
        for index, job in enumerate(outcome.jobs, 1):
            parts.append(f'<text x="4" y="{top + 14}">{escape(job.name)}</text>')
            for stretch in outcome.stretches:
                if stretch.job == index:
                    left = NAME + stretch.begin / end * width
                    wide = (stretch.end - stretch.begin) / end * width
                    parts.append(
                        f'<rect x="{left:.2f}" y="{top}" width="{wide:.2f}" height="{LANE - 4}"'
                        f' fill="{COLOURS[stretch.doing]}"/>'
                    )
            top += LANE
        parts.append(f'<text x="{NAME}" y="{top + 10}" font-size="11">{outcome.makespan_s:.0f} s</text>')
        top += LANE
    size = f'width="{NAME + width + 10}" height="{top + LANE}"'
    style = 'font-family="sans-serif" font-size="12"'
    legend = "".join(
        f'<rect x="{NAME + 130 * place}" y="{top}" width="14" height="14" fill="{COLOURS[doing]}"/>'
        f'<text x="{NAME + 130 * place + 20}" y="{top + 12}">{words}</text>'
        for place, (doing, words) in enumerate(WORDS.items())
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join([*parts, legend]) + "\n</svg>\n"


WORDS: dict[Doing, str] = {
    "computing": "computes",
    "loading": "moves memory",
    "waiting": "waits",
    "thinking": "on the CPU",
}
