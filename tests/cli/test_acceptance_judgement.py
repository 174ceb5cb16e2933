"""The acceptance kit's judgement: what was measured against what the simulated card predicts. Nothing runs here."""

import msgspec
import pytest
from msgspec import structs

from nvshare.cli.doctor.acceptance import judgement, page, prediction, several
from nvshare.cli.doctor.acceptance.framework_scripts import SCRIPTS, script_of
from nvshare.cli.doctor.acceptance.judgement import works
from nvshare.cli.doctor.acceptance.kit import checks
from nvshare.cli.doctor.acceptance.results import Card, Outcome, Report, Row
from nvshare.core.model import CONTEXT_BYTES, GIB

A100 = Card("GPU-1", "NVIDIA A100-SXM4-40GB", 40 * GIB, 39 * GIB)
STRANGE = Card("GPU-2", "NVIDIA GeForce RTX 9090", 24 * GIB, 23 * GIB)
LARGE = Card("GPU-3", "NVIDIA B200", 180 * GIB, 179 * GIB)
HUGE = Card("GPU-4", "NVIDIA B300", 288 * GIB, 287 * GIB)
"""Without figures: judged by those of the P100."""
MOVES = {
    "simulated": 0, "bytes": 8.2e9, "fault_s": 1.0, "first_touch_s": 1.0, "in_s": 0.33, "out_s": 0.33,
    "resident_s": 0.0055, "after_prefetch_s": 0.0055,
}  # fmt: skip


def judged(outcome: Outcome, judge: judgement.Judge = judgement.moves, card: Card = A100) -> list[Row]:
    return judgement.rows("check", "what it is", outcome, card, judge, "the remedy")


def verdicts(values: dict[str, float], judge: judgement.Judge = judgement.moves, card: Card = A100) -> list[str]:
    return [row.verdict for row in judged(Outcome(values), judge, card)]


def test_a_card_that_is_as_fast_as_published_is_as_predicted() -> None:
    assert verdicts(MOVES) == ["ok"] * 6


def test_a_link_at_a_quarter_of_its_speed_differs_and_names_what_to_look_at() -> None:
    found = judged(Outcome(MOVES | {"in_s": 1.3}))
    assert [row.verdict for row in found] == ["ok", "ok", "differs", "ok", "ok", "ok"]
    assert found[2].remedy == judgement.SLOW_LINK
    assert (found[2].measured, found[2].predicted) == ("6.31 GB/s", "12.5 to 50.0 GB/s")


def test_a_prefetch_that_does_nothing_is_noticed_by_the_memory_that_is_not_there() -> None:
    found = judged(Outcome(MOVES | {"after_prefetch_s": 1.0}))
    assert found[-1].verdict == "differs"
    assert "NVSHARE_PREFETCH=0" in found[-1].remedy


def test_a_card_without_figures_is_judged_with_more_tolerance_and_asks_for_its_figures() -> None:
    assert prediction.about(8.0, A100) == prediction.Range(4.0, 16.0)
    assert prediction.about(8.0, STRANGE) == prediction.Range(2.0, 32.0)
    slow = judged(Outcome(MOVES | {"fault_s": 100.0}), card=STRANGE)
    assert (slow[0].verdict, slow[0].remedy) == ("differs", judgement.NEW_CARD)


def test_a_check_that_found_an_error_has_failed_and_has_the_checks_remedy() -> None:
    (row,) = judged(Outcome(error="CUDA_ERROR_UNKNOWN", seconds=2.0))
    assert row == Row("check", "what it is", "failed", "real", "CUDA_ERROR_UNKNOWN", "", "the remedy", 2.0)


def test_a_check_that_was_not_tried_says_why_and_has_no_remedy() -> None:
    (row,) = judged(Outcome(skipped="torch is not installed"))
    assert (row.verdict, row.measured, row.remedy) == ("skipped", "torch is not installed", "")


@pytest.mark.parametrize(
    ("values", "card", "source"),
    [
        ({"simulated": 1.0}, A100, "simulated"),
        ({"simulated": 0.0}, A100, "real"),
        ({}, A100, "real"),
        ({}, structs.replace(A100, is_simulated=True), "simulated"),
        ({"machine": 1.0}, A100, "machine"),
    ],
)
def test_each_line_says_whether_it_was_real(values: dict[str, float], card: Card, source: str) -> None:
    (row,) = judged(Outcome(values), works("it"), card)
    assert row.source == source


def test_a_launch_may_cost_a_tenth_more_or_a_fifth_of_a_microsecond() -> None:
    def launch(bare: float, shared: float) -> list[str]:
        return verdicts({"bare_launch_ns": bare, "launch_ns": shared}, judgement.launches)

    assert launch(100, 299) == ["ok"]
    assert launch(100, 301) == ["differs"]
    assert launch(9000, 9800) == ["ok"]


def test_a_limit_that_is_not_enforced_or_slow_to_change_differs() -> None:
    good = {"refused": 1.0, "granted": 1.0, "shown_bytes": 5.0, "limit_bytes": 5.0, "live_change_s": 0.01}
    assert verdicts(good, judgement.limit) == ["ok", "ok", "ok"]
    assert verdicts(good | {"refused": 0}, judgement.limit) == ["differs", "ok", "ok"]
    assert verdicts(good | {"shown_bytes": 6.0}, judgement.limit) == ["ok", "differs", "ok"]
    assert verdicts(good | {"live_change_s": 0.5}, judgement.limit) == ["ok", "ok", "differs"]


def test_a_switch_in_bulk_is_bounded_by_the_link_and_one_by_faults_from_both_sides() -> None:
    each = 24 * GIB
    turns = {"first_turns": 2.0, "second_turns": 3.0, "switches": 3.0, "bytes": float(each)}
    away = prediction.bytes_away(A100, each)
    assert away == 2 * (each + CONTEXT_BYTES) - 40 * GIB
    bulk = turns | {"in_bulk": 1.0}
    assert verdicts(bulk | {"switch_s": 0.5}, judgement.switch) == ["ok", "ok"]
    assert verdicts(bulk | {"switch_s": 1.5}, judgement.switch) == ["ok", "differs"]
    faults = turns | {"in_bulk": 0.0}
    assert verdicts(faults | {"switch_s": 2.0}, judgement.switch) == ["ok", "ok"]
    assert verdicts(faults | {"switch_s": 0.1}, judgement.switch) == ["ok", "differs"]
    assert verdicts(faults | {"switch_s": 20.0}, judgement.switch) == ["ok", "differs"]
    assert verdicts(bulk | {"switch_s": 0.5, "first_turns": 1.0}, judgement.switch) == ["differs", "ok"]


def test_a_full_card_that_is_slower_than_bare_needs_a_larger_reserve() -> None:
    values = {"bytes": 1.0, "bare_pass_s": 1.0, "pass_s": 1.2}
    (row,) = judged(Outcome(values), judgement.reserve)
    assert row.verdict == "differs"
    assert "--card-reserve" in row.remedy
    assert verdicts(values | {"pass_s": 1.05}, judgement.reserve) == ["ok"]


def test_nvml_without_memory_and_with_the_wrong_memory_differ() -> None:
    assert verdicts({"nvml_error": 3.0, "cuda_total": 1.0}, judgement.nvml) == ["differs"]
    values = {"nvml_error": 0.0, "cuda_total": 1.0, "nvml_total": 2.0}
    assert verdicts(values | {"limit_bytes": 2.0}, judgement.nvml) == ["ok"]
    assert verdicts(values | {"limit_bytes": 1.0}, judgement.nvml) == ["differs"]


def test_a_machine_that_prevents_sharing_differs_with_the_command_that_changes_it() -> None:
    assert verdicts({"is_exclusive": 0.0}, judgement.compute_mode) == ["ok"]
    (row,) = judged(Outcome({"is_exclusive": 1.0}), judgement.compute_mode)
    assert (row.verdict, row.remedy) == ("differs", "nvidia-smi -i GPU-1 -c DEFAULT")
    assert verdicts({"is_running": 1.0}, judgement.mps) == ["differs"]
    assert verdicts({"available_bytes": 39.0 * GIB}, judgement.host_memory) == ["differs"]
    identity = {"managed": 1.0, "concurrent": 0.0, "compute_major": 5.0, "compute_minor": 2.0}
    assert verdicts(identity, judgement.identity) == ["differs"]
    assert verdicts({"stream_value": 1.0, "ipc_handle": 0.0}, judgement.small_memory) == ["ok", "differs"]


def test_the_page_is_whole_and_what_others_named_cannot_change_it() -> None:
    card = structs.replace(A100, name="<script>alert(1)</script>")
    row = Row("check", "what", "differs", "real", "1 < 2", "2", "a & b")
    report = Report("0.1.0", card, {"driver": "580.1"}, (row, structs.replace(row, verdict="ok")))
    text = page.html([report])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "1 &lt; 2" in text
    assert "a &amp; b" in text
    assert "1 ok, 1 differs, 0 failed, 0 skipped" in text
    assert "http" not in text
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_a_framework_says_what_was_shown() -> None:
    def measured(name: str, card: Card, gpus: float = 1.0) -> str:
        (row,) = judged(Outcome({"gpus": gpus}), judgement.framework(name), card)
        return row.measured

    simulated = structs.replace(A100, is_simulated=True)
    assert measured("torch", A100) == "works"
    assert measured("nccl", A100, 2.0) == "works on 2 GPUs"
    assert measured("torch", simulated) == "runs; kernels of a simulated card compute nothing"
    assert measured("nccl", simulated, 2.0) == "runs on 2 GPUs, with gloo; kernels of a simulated card compute nothing"


@pytest.mark.parametrize("name", list(SCRIPTS))
@pytest.mark.parametrize("is_real", [True, False])
def test_the_script_of_a_framework_is_python(name: str, is_real: bool) -> None:
    compile(script_of(name, is_real=is_real, ranks=2), name, "exec")


def test_every_check_has_a_name_of_its_own_and_a_time_limit() -> None:
    table = checks("python")
    assert len({check.name for check in table}) == len(table)
    assert all(0 < check.limit_s(card) <= 600 for check in table for card in (A100, STRANGE, LARGE))


@pytest.mark.parametrize("card", [A100, STRANGE, LARGE, HUGE])
def test_a_check_has_the_time_that_its_plan_takes_on_a_card_of_this_size(card: Card) -> None:
    limits = {check.name: check.limit_s(card) for check in checks("python")}
    turns_s = several.TURNS * several.faults_quantum_s(card)
    filling_s = 2 * card.free_bytes / card.figures.faults
    assert limits["switch-by-faults"] >= turns_s + 60
    assert limits["reserve"] >= filling_s + 60


def test_a_pass_that_is_slower_than_predicted_is_not_revoked() -> None:
    slowest_s = prediction.about(prediction.all_by_faults_s(LARGE, several.each(LARGE)), LARGE).high
    assert several.grace_s(LARGE) >= slowest_s
