"""`nvshare install-service`: the unit starts the program of this installation by its path."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.cli import install_service
from nvshare.cli.errors import CommandError

Front = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("words", [[], ["--user"]], ids=["system", "user"])
def test_the_unit_names_the_scheduler_by_its_path(nvshare: Front, words: list[str]) -> None:
    done = nvshare("install-service", "--print", *words)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("ExecStart=")]
    program = line.removeprefix("ExecStart=").split()[0]
    assert program == str(Path(sys.executable).with_name("nvshare-scheduler"))
    assert Path(program).exists()
    assert "/usr/bin/env" not in done.stdout
    assert "ExecReload=/bin/kill -HUP $MAINPID" in done.stdout.splitlines(), "settings are read again without a restart"


def test_a_unit_that_exists_is_replaced_and_settings_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(install_service, "SYSTEM", tmp_path / "system")
    monkeypatch.setattr(install_service, "DEFAULTS", tmp_path / "default")
    monkeypatch.setattr(install_service, "_systemctl", lambda is_user, *words: called.append(words))
    (tmp_path / "default").write_text("NVSHARE_POLICY=fair\n")
    callback = install_service.install_service.callback
    assert callback is not None
    for _ in range(2):
        callback(is_user=False, is_removed=False, is_printed=False)
    unit = tmp_path / "system" / "nvshare-scheduler.service"
    assert str(Path(sys.executable).with_name("nvshare-scheduler")) in unit.read_text()
    assert (tmp_path / "default").read_text() == "NVSHARE_POLICY=fair\n"
    assert called == [("daemon-reload",), ("enable", "--now", "nvshare-scheduler")] * 2
    callback(is_user=False, is_removed=True, is_printed=False)
    assert not unit.exists()


def test_a_machine_without_systemd_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CommandError, match="no systemctl"):
        install_service._systemctl(False, "daemon-reload")
