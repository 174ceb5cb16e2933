"""What `nvshare run` says of a weight or a priority that the scheduler will not use."""

import os
import socket
from pathlib import Path

import pytest

from nvshare.cli.run import ignored_terms
from nvshare.cli.run.ignored_terms import warn_of_refused_terms
from nvshare.config import DEFAULT_OPERATOR_SOCKET, DEFAULT_READER_SOCKET

ME = 1000
MORE = (
    ": only root and the user of the scheduler may have more, or set more while the program runs"
    " (nvsharectl set-priority, set-weight)\n"
)
WARNING = "nvshare: warning: "


@pytest.mark.parametrize(
    ("weight", "priority", "said"),
    [
        ("500", "5", "the priority of 5 counts as 0 and the weight of 500 counts as 100"),
        ("500", None, "the weight of 500 counts as 100"),
        (None, "1", "the priority of 1 counts as 0"),
        ("100", "0", ""),
        ("50", "-5", ""),
        ("many", "high", ""),
    ],
)
def test_a_user_who_may_not_raise_them_is_told_what_counts(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    weight: str | None,
    priority: str | None,
    said: str,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(ignored_terms, "_scheduler_user", lambda path: 0)
    warn_of_refused_terms(weight, priority, "/s")
    assert capsys.readouterr().err == (f"{WARNING}{said}{MORE}" if said else "")


@pytest.mark.parametrize(("user", "scheduler"), [(0, ME), (ME, ME)])
def test_root_and_the_user_of_the_scheduler_are_told_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], user: int, scheduler: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(ignored_terms, "_scheduler_user", lambda path: scheduler)
    warn_of_refused_terms("500", "5", "/s")
    assert capsys.readouterr().err == ""


def test_the_user_of_a_scheduler_is_the_one_who_listens(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        assert ignored_terms._scheduler_user(path) == os.geteuid()


def test_the_machines_scheduler_is_known_by_both_of_its_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to(tmp_path / "run")
    monkeypatch.setattr(ignored_terms, "DEFAULT_SOCKET", f"{tmp_path}/var/s")
    found = [ignored_terms._viewer_sockets(f"{tmp_path}/{name}/s", {}) for name in ("var", "run", "other")]
    assert found == [[DEFAULT_READER_SOCKET, DEFAULT_OPERATOR_SOCKET]] * 2 + [[]]
