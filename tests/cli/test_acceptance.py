"""`nvshare doctor --gpu` on simulated cards: the whole kit, a card that differs, a check that hangs, a card in use."""

import json
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from nvshare.cli.doctor.acceptance import runner
from nvshare.cli.doctor.acceptance.kit import Check, checks
from nvshare.cli.doctor.acceptance.results import Card
from support.waiting import wait_until

Front = Callable[..., subprocess.CompletedProcess[str]]
FAST = "0.05"
SMALL = 4 << 30
"""Memory of a card on which a switch takes a second at natural speed."""
TIMED = (
    "page faults",
    "first touch",
    "prefetch to the GPU",
    "prefetch to the host",
    "memory on the GPU",
    "memory is there after a prefetch",
    "a kernel launch",
    "an allocation of 2 MiB",
    "a free of 2 MiB",
    "a limit changes while its program runs",
    "a switch that moves memory in bulk",
    "a switch that moves memory by page faults",
    "a program that fills what it is shown is not slower than without nvshare",
)
"""Their time is the machine's too: the card runs 20 times as fast as a real one; a pause of 50 ms counts as a second.
So they may take longer than predicted here, and never less. Cards of natural speed are as predicted: below."""


def report_in(folder: Path) -> dict[str, Any]:
    (report,) = json.loads((folder / "nvshare-gpu-report.json").read_text())
    assert isinstance(report, dict)
    return report


def is_too_fast(row: dict[str, str]) -> bool:
    """More bytes in a second, or a shorter switch, than predicted: no pause of the machine does that."""
    predicted = re.fullmatch(r"(\S+) to (\S+) (GB/s|s)", row["predicted"])
    if not predicted or row["verdict"] == "failed":
        return False
    value = float(row["measured"].split()[0])
    return value > float(predicted[2]) if predicted[3] == "GB/s" else value < float(predicted[1])


def test_the_whole_kit_finds_a_simulated_card_as_predicted(environment: dict[str, str], tmp_path: Path) -> None:
    words = ["doctor", "--gpu", "--sim-gpus", "1", "--out", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-m", "nvshare.cli.nvshare", *words], env=environment | {"NVSHARE_SIM_SCALE": FAST},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    report = report_in(tmp_path)
    rows = report["rows"]
    assert (report["card"]["is_simulated"], report["card"]["scale"]) == (True, float(FAST))
    assert str(Path(sys.executable).parent) not in json.dumps(report), "a path may have the name of a user"
    assert {row["check"] for row in rows} == {check.name for check in checks(sys.executable)}
    assert {row["source"] for row in rows} == {"simulated", "machine"}
    assert {row["what"] for row in rows} >= set(TIMED)
    unlike = [row for row in rows if row["verdict"] not in ("ok", "skipped")]
    others = [row for row in unlike if row["verdict"] != "differs" or row["what"] not in TIMED]
    assert others == [], result.stdout + result.stderr
    assert [row for row in rows if is_too_fast(row)] == []
    skipped = {row["check"] for row in rows if row["verdict"] == "skipped"}
    assert skipped == {"torch", "cupy", "numba", "jax", "vllm", "nccl"}
    assert "<table>" in (tmp_path / "nvshare-gpu-report.html").read_text()
    assert "\x1b" not in result.stdout
    for row in rows:
        assert f"{row['source']:9} {row['what']}" in result.stdout


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_measured(nvshare: Front) -> None:
    result = nvshare("doctor", "--gpu", "--sim-gpus", "1", "--out", "/proc/nowhere")
    assert result.returncode == 1
    assert "--out names another directory" in result.stderr
    assert "1 of " not in result.stdout + result.stderr  # no check was begun


@pytest.fixture
def simulated(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    """A simulated card for the checks that these tests start."""
    from nvshare.simgpu.config import SimGpu

    settings = SimGpu().with_values(directory=tmp_path, scale=FAST).environment(environment)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    asked = "from nvshare.cli.doctor.acceptance.runner import cards; print(cards('0')[0].uuid)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    return Card(done.stdout.strip(), "Simulated GPU", 16 << 30, 16 << 30, is_simulated=True, scale=float(FAST))


@pytest.mark.parametrize(("name", "scale"), [("moves", 1.0), ("switch-in-bulk", 4.0), ("switch-by-faults", 1.0)])
def test_a_card_of_natural_speed_is_as_the_formulas_predict(
    simulated: Card, monkeypatch: pytest.MonkeyPatch, name: str, scale: float
) -> None:
    """In bulk it is slower still: the machine's own time is a part of the prediction that is no more than the moves."""
    monkeypatch.setenv("NVSHARE_SIM_SCALE", str(scale))
    monkeypatch.setenv("NVSHARE_SIM_MEMORY", str(SMALL))
    monkeypatch.setattr(runner, "checks", lambda python: (the(name),))
    card = structs.replace(simulated, total_bytes=SMALL, free_bytes=SMALL, scale=scale)
    rows = list(runner.accept(card, sys.executable, lambda text: None))
    print([(row.what, row.measured, row.predicted) for row in rows])
    assert rows
    assert [row for row in rows if row.verdict != "ok"] == []


def the(name: str, python: str = sys.executable) -> Check:
    return next(check for check in checks(python) if check.name == name)


def test_a_card_that_ignores_prefetches_and_has_a_slow_link_differs(
    simulated: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVSHARE_SIM_PREFETCH", "ignored")
    monkeypatch.setattr(runner, "checks", lambda python: (the("moves"),))
    rows = {row.what: row for row in runner.accept(simulated, sys.executable, lambda text: None)}
    assert rows["memory is there after a prefetch"].verdict == "ok"  # it never left
    assert rows["page faults"].verdict == "differs"
    assert rows["prefetch to the GPU"].verdict == "differs"


def has_ended(pid: int) -> bool:
    """Nobody may have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_check_that_hangs_is_ended_with_its_programs(
    simulated: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "pid"
    communicate = subprocess.Popen.communicate

    def until_it_hangs(
        process: subprocess.Popen[bytes], data: bytes | None = None, timeout: float | None = None
    ) -> Any:
        """The limit passes when the program has come to the point where it hangs."""
        if data is None:
            return communicate(process, data, timeout)
        assert process.stdin is not None
        process.stdin.write(data)
        process.stdin.close()
        process.stdin = None
        wait_until(lambda: hangs.exists() and hangs.read_text().endswith("\n"), "the program hangs")
        raise subprocess.TimeoutExpired(process.args, timeout or 0)

    monkeypatch.setattr(subprocess.Popen, "communicate", until_it_hangs)
    hanging = tmp_path / "python"
    hanging.write_text(f"#!/bin/sh\nif [ ! -e {tmp_path}/asked ]; then touch {tmp_path}/asked; exit 0; fi\n"
                       f"echo $$ > {hangs}; exec sleep 1000\n")  # fmt: skip
    hanging.chmod(hanging.stat().st_mode | stat.S_IXUSR)
    check = structs.replace(the("torch", str(hanging)), fixed_s=8)
    outcome = runner._measured(check, simulated, str(hanging))
    assert outcome.error == "not finished after 8 s"
    pid = int(hangs.read_text())
    wait_until(lambda: has_ended(pid), "the program ends")


def test_a_framework_that_fails_says_its_last_line(simulated: Card, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.99: cannot open')")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    outcome = runner._measured(the("torch", str(python)), simulated, str(python))
    assert outcome.error == "ImportError: libcudart.so.99: cannot open"


def test_a_framework_that_cannot_run_on_a_simulated_card_says_why(simulated: Card, tmp_path: Path) -> None:
    (tmp_path / "cupy.py").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    outcome = runner._measured(the("cupy", str(python)), simulated, str(python))
    assert outcome.skipped == "cupy does not run on a simulated card: it has NVIDIA's runtime linked in"


def test_a_card_that_others_use_is_not_filled(simulated: Card) -> None:
    used = structs.replace(simulated, is_used=True)
    for check in checks(sys.executable):
        if check.needs_idle_card:
            assert "other programs use this card" in runner._measured(check, used, sys.executable).skipped
    assert {check.name for check in checks(sys.executable) if check.needs_idle_card} == {
        "switch-in-bulk", "switch-by-faults", "reserve",
    }  # fmt: skip


def test_a_crash_of_the_driver_fails_one_check(
    simulated: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcuda.so.1").write_text("not a library")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path / 'lib'}")
    outcome = runner._measured(the("identity"), simulated, sys.executable)
    assert "libcuda.so.1" in outcome.error
