"""The demonstration: its arithmetic on made-up runs, its picture, and its quickest part for real."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from rich.console import Console

from nvshare.cli.demo import demonstration, plan, report
from nvshare.cli.demo.drawing import svg, write_png
from nvshare.cli.demo.picture import Panel, PictureLane, Stretch, draw
from nvshare.cli.demo.testbed import JobResult, PhaseResult
from nvshare.simgpu.trace import Kind, ProcessTrace, Record

Front = Callable[..., subprocess.CompletedProcess[str]]
PLAN = plan.simulated()
SECONDS = {
    "steady-serial": 10.0, "steady-plain": 0.5, "steady-unified": 8.0, "steady-faults": 13.0,
    "steady-shared": 10.5, "bursty-serial": 16.0,
    "bursty-shared": 11.0, "small-serial": 10.0, "small-shared": 4.0, "slow-faults": 12.0, "slow-shared": 8.0,
}  # fmt: skip
SWITCH_S = {"steady-shared": 0.3, "slow-faults": 20.0, "slow-shared": 0.3}


def results(**seconds: float) -> dict[str, PhaseResult]:
    made = {}
    for phase in PLAN.phases:
        took = seconds.get(phase.key.replace("-", "_"), SECONDS[phase.key])
        done = 0.01 if phase.stop_after_s else 1.0
        error = "CUDA_ERROR_OUT_OF_MEMORY" if phase.stops_at_failure else ""
        jobs = tuple(JobResult(job.name, index, 0, took, done, error) for index, job in enumerate(phase.jobs))
        made[phase.key] = PhaseResult(phase, took, jobs, None)
    return made


def test_what_was_stopped_is_projected_by_how_far_it_came() -> None:
    assert results()["steady-unified"].projected_s == 800


def found(switch_s: dict[str, float] | None = None, /, **seconds: float) -> list[str]:
    shown = report.verdicts(PLAN, results(**seconds), SWITCH_S | (switch_s or {}))
    return sorted(verdict.result for verdict in shown)


def test_a_figure_below_the_usual_is_reported_and_fails_nothing() -> None:
    assert found() == ["ok"] * 7
    bads = ("steady_shared", 11.1), ("steady_faults", 10.2), ("bursty_shared", 17.0), ("small_shared", 11.0)
    for key, took in (*bads, ("steady_unified", 0.2)):
        assert found(**{key: took}) == ["ok"] * 6 + ["slow"], key
    for key, cost in ("steady-shared", 0.35), ("slow-faults", 1.4):
        assert found({key: cost}) == ["ok"] * 6 + ["slow"], key


def test_a_part_that_was_run_alone_has_its_verdicts() -> None:
    made = {key: result for key, result in results().items() if key.startswith("slow")}
    (verdict,) = report.verdicts(PLAN, made, {"slow-faults": 20.0, "slow-shared": 0.25})
    assert verdict.text == (
        "a switch with page faults of 500MB/s: by page faults 20.0 s, in bulk 0.25 s, 80x less (usual: at least 5x)"
    )


def test_the_link_needs_a_quarter_of_a_second_for_what_must_move() -> None:
    assert round(PLAN.link_s, 2) == 0.25


def test_a_program_that_fails_under_nvshare_is_named_with_its_reason() -> None:
    made = results()
    broken = made["steady-shared"]
    first, second = broken.jobs
    jobs = (replace(first, done=0.5, error="CUDA_ERROR_UNKNOWN"), replace(second, done=0.25))
    made["steady-shared"] = replace(broken, jobs=jobs)
    assert report.verdicts(PLAN, made, {}) == [
        report.Verdict("train A, at the same time, with nvshare: CUDA_ERROR_UNKNOWN", "FAIL"),
        report.Verdict("train B, at the same time, with nvshare: ended after 25% of its work", "FAIL"),
    ]


def test_the_table_tells_times_of_the_card_and_what_went_wrong() -> None:
    lines = {line.title + line.group: line for line in report.lines(PLAN, results())}
    big = "2 x 9 GiB on 16 GiB, GPU always busy"
    assert lines["one after another" + big].seconds == 10.0 / PLAN.scale
    assert lines["at the same time, plain CUDA" + big].outcome == "train A: CUDA_ERROR_OUT_OF_MEMORY"
    assert lines["at the same time, unified memory" + big].outcome.endswith(": 1 % done")
    assert lines["at the same time, unified memory" + big].compared == "80.00 times as long"
    assert lines["at the same time, with nvshare" + big].compared == "1.05 times as long"
    half = "2 x 9 GiB on 16 GiB, GPU busy half of the time"
    assert lines["at the same time, with nvshare" + half].compared == "1.45 times as fast"


def test_the_table_fits_on_a_small_terminal_and_has_the_words_of_the_readme() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(demonstration.table_of(report.lines(PLAN, results())))
    shown = capture.get()
    for line in report.lines(PLAN, results()):
        for text in (line.title, line.compared, line.outcome):
            assert text in shown  # Nothing is wrapped.
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    for word in ("one after another", "at the same time, with nvshare", "times as long", "times as fast"):
        assert word in shown
        assert word in readme


def test_a_program_that_failed_says_why_beside_its_bar() -> None:
    job = JobResult("train A", 1, 0, 1.0, 0.0, "CUDA_ERROR_OUT_OF_MEMORY")
    assert report.progress_note(job) == "CUDA_ERROR_OUT_OF_MEMORY"
    assert report.progress_note(replace(job, error="", done=0.00042)) == "about 0.04 % done, stopped"
    assert report.progress_note(replace(job, error="", done=1.0)) == "done"


def test_an_estimate_from_little_progress_is_not_more_precise_than_two_runs_agree() -> None:
    made = results(steady_unified=31.0)
    slow = made["steady-unified"]
    slow = replace(slow, jobs=tuple(replace(job, done=0.00112) for job in slow.jobs))
    keys = ("steady-serial", "steady-unified")
    _, line = report.lines(PLAN, {key: (made | {"steady-unified": slow})[key] for key in keys})
    assert line.outcome.endswith(": about 0.1 % done")
    assert line.compared == "2,800 times as long"
    shown = demonstration._seconds(line)
    assert shown == f"about {report.estimate(31.0 / 0.00112 / PLAN.scale)} s"
    assert [report.estimate(value) for value in (46_745, 331.2, 28.4)] == ["47,000", "330", "28"]


def test_the_big_ones_do_not_fit_together_and_the_small_ones_do() -> None:
    by_key = {phase.key: phase for phase in PLAN.phases}
    safe = PLAN.card * 9 // 10
    assert sum(job.memory for job in by_key["steady-shared"].jobs) > PLAN.card
    assert sum(job.memory for job in by_key["small-shared"].jobs) < safe


def panels() -> tuple[Panel, ...]:
    lane = PictureLane("A & <b>", (Stretch(0, 5), Stretch(6, 10, 0.5)), "out of memory")
    return (Panel("one", "10 s", 10, (lane,)), Panel("two", "stopped", 4, (lane, lane), is_cut=True))


def test_the_picture_is_an_svg_that_parses_with_its_names_escaped() -> None:
    tree = ElementTree.fromstring(svg(draw("Which program used the GPU when", panels())))
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "A & <b>" in texts
    boxes = [float(box.get("width", "0").rstrip("%")) for box in tree.iter("{http://www.w3.org/2000/svg}rect")]
    assert all(width > 0 for width in boxes)


def test_a_kernel_that_waits_for_memory_when_its_program_is_stopped_is_drawn_until_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    second = round(PLAN.scale * 1e9)
    kernel = Record(Kind.KERNEL, 0, 1 * second, None, 0, 0, 0, 1, "sweep", 0, 0)
    traces = [ProcessTrace(str(pid), pid, 0, "train", 0, PLAN.scale, ("GPU-1",), (kernel,), 0) for pid in (0, 1)]
    monkeypatch.setattr(report, "read_traces", lambda directory: traces)
    stopped = replace(results()["steady-unified"], directory=tmp_path)
    [panel] = report.panels(PLAN, {"steady-unified": stopped})
    for lane in panel.lanes:
        [stretch] = lane.stretches
        assert (stretch.begin_s, stretch.end_s) == (1, panel.length_s)
        assert stretch.moving > 0.99, "a kernel takes milliseconds"


def test_the_same_picture_is_a_png(tmp_path: Path) -> None:
    from PIL import Image

    drawing = draw("Which program used the GPU when", panels())
    write_png(drawing, tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as image:
        assert image.size == (drawing.width * 2, drawing.height * 2)
        colours = image.getcolors(1 << 20) or []
    assert {(0x1A, 0x9A, 0x56), (0xE0, 0x66, 0x2F)} <= {colour for _, colour in colours}


def test_a_limit_is_raised_and_lowered_while_the_program_runs(nvshare: Front, runtime: Path) -> None:
    result = nvshare("demo", "--only", "limit")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("  ok    ") == 4
    assert [path.name for path in (runtime / "nvshare").iterdir()] == ["sweeping.lock"], "everything is tidied up"


def test_small_programs_run_side_by_side_for_real(nvshare: Front, tmp_path: Path) -> None:
    result = nvshare("demo", "--only", "small", "--out", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "one after another" in result.stdout
    assert (tmp_path / "nvshare-demo.svg").stat().st_size > 1000
    assert (tmp_path / "nvshare-demo.png").stat().st_size > 1000


@pytest.mark.parametrize("place", ["/proc", "/proc/nowhere"])
def test_a_place_that_cannot_be_written_is_one_line_before_anything_runs(nvshare: Front, place: str) -> None:
    result = nvshare("demo", "--only", "small", "--out", place)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"nvshare: demo: {place}: No such file or directory; --out names another directory\n"
