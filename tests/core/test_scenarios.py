"""Golden stories: every rule of scheduling, limits and budgets as a text that is also a test."""

from pathlib import Path

import pytest

from core import story

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_story_ends_as_it_is_written(path: Path, request: pytest.FixtureRequest) -> None:
    written, played = story.run(path)
    if request.config.getoption("--rewrite"):
        path.write_text(played)
    else:
        assert written == played


def test_a_story_with_a_wrong_result_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("card g0 10Gi\n----\nnothing happens\n\nA joins g0\n----\nA waits for g0 at place 1\n")
    written, played = story.run(path)
    assert written != played
    assert played.endswith("A is accepted\n")


def test_a_line_that_nobody_understands_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("A dances\n----\nnothing happens\n")
    with pytest.raises(AssertionError, match="nobody understands: A dances"):
        story.run(path)
