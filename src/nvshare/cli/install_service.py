"""`nvshare install-service`: the systemd unit of the scheduler, with the path of this installation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from nvshare.cli.errors import EXIT_USAGE, CommandError

SERVICE = "nvshare-scheduler"
BY_NAME = f"/usr/bin/env {SERVICE}"
SYSTEM = Path("/etc/systemd/system")
DEFAULTS = Path("/etc/default") / SERVICE


@click.command("install-service", short_help="Install the scheduler as a systemd service.")
@click.option("--user", "is_user", is_flag=True, help="For this user only; needs no root.")
@click.option("--remove", "is_removed", is_flag=True, help="Stop and remove the service.")
@click.option("--print", "is_printed", is_flag=True, help="Only print the unit.")
def install_service(is_user: bool, is_removed: bool, is_printed: bool) -> None:
    """Install nvshare-scheduler as a systemd service, start it, and start it again at each boot.

    The unit starts the program of this installation by its path, so it works from a virtual environment and with pipx.
    Run the command again after the installation has moved. Settings are in /etc/default/nvshare-scheduler.
    """
    if is_removed and is_printed:
        raise CommandError("install-service: use either --print or --remove, not both", EXIT_USAGE)
    text = unit(_template(is_user=is_user), scheduler_path())
    if is_printed:
        click.echo(text, nl=False)
        return
    path = (Path.home() / ".config/systemd/user" if is_user else SYSTEM) / f"{SERVICE}.service"
    try:
        if is_removed:
            _remove(path, is_user=is_user)
        else:
            _install(path, text, is_user=is_user)
    except PermissionError as error:
        raise CommandError(
            f"install-service: {error.filename}: {error.strerror}; run it as root (sudo {sys.argv[0]} install-service)"
            " or use --user"
        ) from None


def _remove(path: Path, *, is_user: bool) -> None:
    if not path.exists():
        click.echo(f"Nothing to remove: there is no {path}.")
        return
    _systemctl(is_user, "disable", "--now", SERVICE)
    path.unlink()
    _systemctl(is_user, "daemon-reload")
    click.echo(f"Removed {path}. Running programs continue without sharing.")


def _install(path: Path, text: str, *, is_user: bool) -> None:
    """Nothing is left of a new service that cannot be started."""
    is_new = not path.exists()
    _write(path, text, is_user=is_user)
    try:
        _systemctl(is_user, "daemon-reload", is_needed=True)  # fails before `enable` makes links if there is no bus
        _systemctl(is_user, "enable", "--now", SERVICE, is_needed=True)
    except CommandError:
        if is_new:
            _systemctl(is_user, "disable", "--now", SERVICE)
            path.unlink()
            _systemctl(is_user, "daemon-reload")
        raise
    click.echo(f"Installed {path} and started it.")


def unit(template: str, program: str) -> str:
    """The unit with the program's own path in place of its name."""
    if BY_NAME not in template:
        raise AssertionError("the unit starts the scheduler by name")
    return template.replace(BY_NAME, program)


def scheduler_path() -> str:
    """The scheduler of this installation: beside this program's Python, where pip, venv and pipx put it."""
    beside = Path(sys.executable).with_name(SERVICE)
    found = str(beside) if beside.exists() else shutil.which(SERVICE)
    if found is None:
        raise CommandError(f"install-service: {SERVICE} is neither in {beside.parent} nor in the PATH")
    return found


def _template(*, is_user: bool) -> str:
    name = f"{SERVICE}-user.service" if is_user else f"{SERVICE}.service"
    return (_units() / name).read_text(encoding="utf-8")


def _units() -> Path:
    """The units: in the wheel, or in the sources that this package was installed from."""
    package = Path(__file__).parents[1]
    return next(path for path in (package / "_systemd", package.parents[1] / "deploy/systemd") if path.is_dir())


def _write(path: Path, text: str, *, is_user: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if not is_user and not DEFAULTS.exists():
        DEFAULTS.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_units() / f"{SERVICE}.default", DEFAULTS)


def _systemctl(is_user: bool, *words: str, is_needed: bool = False) -> None:
    command = ["systemctl", *(["--user"] if is_user else []), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)  # noqa: S603
    except FileNotFoundError:
        if not is_needed:
            return
        raise CommandError("install-service: this machine has no systemctl; start nvshare-scheduler yourself") from None
    if done.returncode != 0 and is_needed:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise CommandError(f"install-service: {' '.join(command)}: {reason.rstrip('.')}; {_remedy(is_user, reason)}")


def _remedy(is_user: bool, reason: str) -> str:
    if is_user and "bus" in reason.lower():
        return "log in as this user in a session of its own, or first run as root: loginctl enable-linger USER"
    if "bus" in reason.lower() or "not been booted with systemd" in reason:
        return "systemd does not run here; start nvshare-scheduler yourself"
    return f"see: journalctl {'--user ' if is_user else ''}-u {SERVICE}"
