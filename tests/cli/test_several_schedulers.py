"""Several private schedulers of one user: the commands say which one they show, and change none by chance."""

from pathlib import Path

import pytest

from nvshare.cli import operator_client
from support.daemon import Daemon, call_ctl


@pytest.fixture
def runtime_with(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for private schedulers, on a machine that has no scheduler."""
    folder = tmp_path_factory.mktemp("r")
    folder.chmod(0o700)
    (folder / "nvshare").mkdir(mode=0o700)
    for name in ("NVSHARE_OPERATOR_SOCKET", "NVSHARE_READER_SOCKET", "NVSHARE_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    for name in ("DEFAULT_OPERATOR_SOCKET", "DEFAULT_READER_SOCKET"):
        monkeypatch.setattr(operator_client, name, str(folder / "none"))
    return folder / "nvshare"


def test_a_private_scheduler_that_is_changed_is_named(runtime_with: Path) -> None:
    with Daemon(runtime_with / "on-1") as daemon:
        assert call_ctl("status")[2] == ""
        code, out, err = call_ctl("set-quantum", "30")
        assert (code, out) == (0, "Quantum 30 s, mode fixed, on all GPUs.\n")
        assert err == f"note: this is the private scheduler at {daemon.operator_socket}\n"
        assert call_ctl("--socket", daemon.operator_socket, "set-quantum", "30")[2] == "", "the user has named it"


def test_of_two_private_schedulers_one_is_shown_and_none_is_changed(runtime_with: Path) -> None:
    with Daemon(runtime_with / "on-1") as first, Daemon(runtime_with / "on-2") as second:
        paths = first.operator_socket, second.operator_socket
        code, out, err = call_ctl("status")
        assert (code, out.startswith("nvshare ")) == (0, True)
        assert err == f"note: this is the private scheduler at {paths[0]}; another one runs at {paths[1]} (--socket)\n"
        code, out, err = call_ctl("set-quantum", "30")
        assert (code, out) == (1, "")
        said = f"nvsharectl: several private schedulers run; choose one with --socket: {paths[0]}, {paths[1]}\n"
        assert err == said
        assert call_ctl("--socket", paths[1], "set-quantum", "30")[:2] == (
            0,
            "Quantum 30 s, mode fixed, on all GPUs.\n",
        )
        assert call_ctl("schema")[2] == ""
