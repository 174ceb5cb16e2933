"""The report of `nvshare doctor --gpu`: what was measured is written, also after Ctrl-C; otherwise nothing is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.cli.doctor import command
from nvshare.cli.doctor.acceptance import runner
from nvshare.cli.doctor.acceptance.results import Card, Report, Row
from nvshare.cli.doctor.progress import Progress
from nvshare.cli.errors import CommandError

CARD = Card("GPU-1", "NVIDIA A100", 16 << 30, 16 << 30)
ROW = Row("moves", "speed of memory", "ok", "real", "12 GB/s")


def measure(monkeypatch: pytest.MonkeyPatch, folder: Path, rows: int) -> None:
    """With an interrupt after so many rows of the second card."""

    def accept(card: Card, python: str, announce: runner.Announce) -> Iterator[Row]:
        yield from [ROW] * (rows if card.uuid == "GPU-2" else 3)
        if card.uuid == "GPU-2":
            raise KeyboardInterrupt

    second = Card("GPU-2", CARD.name, CARD.total_bytes, CARD.free_bytes)
    monkeypatch.setattr(runner, "cards", lambda wanted: [CARD, second])
    monkeypatch.setattr(runner, "accept", accept)
    monkeypatch.setattr(runner, "report", lambda card, rows: Report("0", card, {}, rows))
    command._measure("all", folder, "python", Progress(), is_json=False)


@pytest.mark.parametrize("rows", [0, 2])
def test_an_interrupt_writes_what_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        measure(monkeypatch, tmp_path, rows)
    reports = json.loads((tmp_path / "nvshare-gpu-report.json").read_text())
    assert [len(report["rows"]) for report in reports] == [3, rows] if rows else [3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nvshare-gpu-report.html", "nvshare-gpu-report.json"]


def test_without_a_gpu_no_report_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def cards(wanted: str) -> list[Card]:
        raise CommandError("no GPU")

    monkeypatch.setattr(runner, "cards", cards)
    with pytest.raises(CommandError):
        command._measure("0", tmp_path, "python", Progress(), is_json=False)
    assert list(tmp_path.iterdir()) == []
