"""`nvshare doctor`: what it says of the scheduler to users who may not open its operator socket."""

from pathlib import Path

import pytest

from cli.test_render import node, status
from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.doctor import scheduler
from nvshare.cli.doctor.finding import Finding
from nvshare.cli.doctor.machine import CheckedMachine
from nvshare.cli.operator_client import NotAllowedError, UnreachableError

OPERATOR, READER = "/x/operator/control.sock", "/x/status/status.sock"
REFUSED = f"this user has no permission to open {OPERATOR}; use sudo"


def found(monkeypatch: pytest.MonkeyPatch, *, has_reader: bool) -> list[Finding]:
    def ask_for(kind: type[admin.Status], path: str, request: admin.Request) -> admin.Status:
        if path == OPERATOR:
            raise NotAllowedError(REFUSED)
        assert path == READER
        if not has_reader:
            raise UnreachableError("no scheduler there")
        return status(node())

    def stat(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(operator_client, "ask_for", ask_for)
    monkeypatch.setattr(Path, "stat", stat)
    machine = CheckedMachine({}, operator_socket=OPERATOR, reader_socket=READER)
    return list(scheduler._check_operator(machine))


def test_a_user_who_may_not_give_orders_hears_what_the_socket_for_reading_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *_ = texts = [finding.text for finding in found(monkeypatch, has_reader=True)]
    assert first.startswith("the scheduler is nvshare ")
    assert "does not answer" not in " ".join(texts)


def test_without_a_socket_for_reading_the_user_hears_why(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = found(monkeypatch, has_reader=False)
    assert (finding.level, finding.text) == ("info", f"the operator socket does not answer: {REFUSED}")
