"""`nvshare install-service`: the unit starts the program of this installation by its path."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.cli import install_service

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
    monkeypatch.setattr(install_service, "_systemctl", lambda is_user, *words, is_needed=False: called.append(words))
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


@pytest.mark.parametrize("words", [[], ["--user"]], ids=["system", "user"])
def test_a_service_that_is_not_installed_is_not_removed(nvshare: Front, tmp_path: Path, words: list[str]) -> None:
    calls = _systemctl_that(tmp_path, "exit 0")
    if (install_service.SYSTEM / "nvshare-scheduler.service").exists():
        pytest.skip("the service is installed on this machine")
    done = nvshare("install-service", "--remove", *words, HOME=str(tmp_path), PATH=str(tmp_path))
    assert done.stdout.startswith("Nothing to remove: there is no "), done.stderr
    assert (done.returncode, calls.exists()) == (0, False)


NO_BUS = "Failed to connect to bus: No medium found"


@pytest.mark.parametrize("failing", ["daemon-reload", "enable"])
def test_nothing_is_left_of_a_service_of_a_user_that_cannot_be_started(
    nvshare: Front, tmp_path: Path, failing: str
) -> None:
    calls = _systemctl_that(tmp_path, f'case "$*" in *{failing}*) echo "{NO_BUS}" >&2; exit 1;; esac')
    done = nvshare("install-service", "--user", HOME=str(tmp_path), PATH=f"{tmp_path}:/usr/bin:/bin")
    words = "enable --now nvshare-scheduler" if failing == "enable" else failing
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"nvshare: install-service: systemctl --user {words}: {NO_BUS};"
        " log in as this user in a session of its own, or first run as root: loginctl enable-linger USER\n"
    )
    assert [path.name for path in tmp_path.rglob("nvshare-scheduler*")] == []
    assert "--user disable --now nvshare-scheduler" in calls.read_text().splitlines()


def test_to_print_and_to_remove_is_a_mistake(nvshare: Front) -> None:
    done = nvshare("install-service", "--print", "--remove")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nvshare: install-service: use either --print or --remove, not both\n"


def _systemctl_that(folder: Path, script: str) -> Path:
    """A systemctl of ours; the file that its calls are written to."""
    calls = folder / "calls"
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\n{script}\n')
    program.chmod(0o755)
    return calls


def test_a_machine_without_systemd_is_said_so_and_nothing_is_left_of_the_service(
    nvshare: Front, tmp_path: Path
) -> None:
    done = nvshare("install-service", "--user", HOME=str(tmp_path), PATH="/nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "nvshare: install-service: this machine has no systemctl; start nvshare-scheduler yourself\n"
    )
    assert [path.name for path in tmp_path.rglob("nvshare-scheduler*")] == []


def test_a_unit_is_removed_from_a_machine_without_systemd(nvshare: Front, tmp_path: Path) -> None:
    unit = tmp_path / ".config/systemd/user/nvshare-scheduler.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Unit]\n")
    done = nvshare("install-service", "--user", "--remove", HOME=str(tmp_path), PATH="/nowhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Removed {unit}. Running programs continue without sharing.\n"
    assert not unit.exists()
