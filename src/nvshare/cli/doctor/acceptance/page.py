"""The report as two files: JSON for programs, one page for people. The page loads nothing from elsewhere."""

import tempfile
from html import escape
from pathlib import Path

import msgspec

from nvshare.cli.doctor.acceptance.results import Report, Row
from nvshare.cli.errors import CommandError
from nvshare.quantity import amount

NAME = "nvshare-gpu-report"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
body { color: #1b1f24; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .35em .7em; border-bottom: 1px solid #d9dde2 }
.ok { color: #1a7f37 } .differs { color: #9a6700 } .failed { color: #cf222e } .skipped { color: #6e7781 }
.remedy { color: #57606a; font-size: 90% }
@media (prefers-color-scheme: dark) {
  body { color: #e6e9ec; background: #14181c } th, td { border-color: #343a41 } .remedy { color: #9aa4ae }
  .ok { color: #56d364 } .differs { color: #e3b341 } .failed { color: #ff7b72 }
}
"""


def prepare(folder: Path) -> None:
    """Make the directory before anything is measured; raises CommandError if files cannot be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CommandError(f"doctor: {folder}: {error.strerror}; --out names another directory") from None


def write(folder: Path, reports: list[Report]) -> tuple[Path, Path]:
    data, page = folder / f"{NAME}.json", folder / f"{NAME}.html"
    _replace(data, msgspec.json.format(msgspec.json.encode(reports), indent=2) + b"\n")
    _replace(page, html(reports).encode())
    return data, page


def _replace(path: Path, content: bytes) -> None:
    """The whole file or none."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise CommandError(f"doctor: {path}: {error.strerror}; --out names another directory") from None


def html(reports: list[Report]) -> str:
    """The whole page."""
    sections = "\n".join(_section(report) for report in reports)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>nvshare on this GPU</title>'
        f"<style>{STYLE}</style></head>\n<body>\n<h1>nvshare on this GPU</h1>\n{sections}\n</body></html>\n"
    )


def _section(report: Report) -> str:
    card = report.card
    counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in ("ok", "differs", "failed", "skipped"))
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    head = "".join(f"<th>{word}</th>" for word in ("", "on", "what", "measured", "predicted"))
    rows = "\n".join(_row(row) for row in report.rows)
    return (
        f"<h2>{escape(card.name)}, {amount(card.total_bytes)}</h2>\n"
        f"<p>nvshare {escape(report.nvshare_version)}; {escape(machine)}. {counts}.</p>\n"
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    )


def _row(row: Row) -> str:
    remedy = f'<div class="remedy">{escape(row.remedy)}</div>' if row.remedy else ""
    return (
        f'<tr><td class="{row.verdict}">{row.verdict}</td><td>{row.source}</td><td>{escape(row.what)}</td>'
        f"<td>{escape(row.measured)}{remedy}</td><td>{escape(row.predicted)}</td></tr>"
    )
