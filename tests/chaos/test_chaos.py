"""The short form of `make chaos`."""

from pathlib import Path

from chaos.storm import Plan, Storm, few_descriptors


def test_programs_finish_right_while_their_scheduler_is_killed_again_and_again(tmp_path: Path) -> None:
    report = Storm(tmp_path, Plan(seconds=5, clients=5, rounds=60, crowd=100)).run()
    assert report.wrong == []
    assert report.done["daemon killed"] >= 3
    assert report.finished + report.killed == 5
    assert report.finished >= 3


def test_a_scheduler_out_of_descriptors_serves_again_when_others_have_left(tmp_path: Path) -> None:
    few_descriptors(tmp_path)
