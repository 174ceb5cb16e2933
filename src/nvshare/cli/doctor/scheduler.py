"""What doctor says of the scheduler and its sockets."""

import stat
from collections.abc import Iterator
from pathlib import Path

from nvshare import __version__, admin
from nvshare.cli import operator_client
from nvshare.cli.doctor.clients import check_client
from nvshare.cli.doctor.finding import Finding
from nvshare.cli.doctor.machine import CheckedMachine
from nvshare.cli.doctor.unshared import check_unshared
from nvshare.cli.errors import CommandError
from nvshare.cli.run import private_scheduler


def check_scheduler(machine: CheckedMachine) -> Iterator[Finding]:
    """The machine's scheduler, or whether programs can start a private one."""
    try:
        if not private_scheduler.is_answering(machine.socket):
            yield Finding("info", f"no scheduler at {machine.socket}: `nvshare run` starts a private one")
            yield from _check_private()
            return
    except CommandError as error:
        yield Finding("fail", str(error), "chmod 755 the directory of the socket")
        return
    yield Finding("ok", f"a scheduler listens at {machine.socket}")
    yield from _check_operator(machine)


def _check_private() -> Iterator[Finding]:
    try:
        yield Finding("ok", f"a private scheduler can use {private_scheduler.runtime_directory()}")
    except CommandError as error:
        yield Finding("fail", str(error))


def _check_operator(machine: CheckedMachine) -> Iterator[Finding]:
    try:
        status = _status_of(machine)
    except operator_client.UnreachableError as error:
        yield Finding("info", f"the operator socket does not answer: {error}")
        return
    except (operator_client.RefusedError, admin.AdminError) as error:
        yield Finding("warn", str(error), "install one version of nvshare on this machine")
        return
    if status.version != __version__:
        yield Finding(
            "warn", f"the scheduler is nvshare {status.version}, this is {__version__}", "restart nvshare-scheduler"
        )
    else:
        yield Finding("ok", f"the scheduler is nvshare {status.version}, {len(status.node.clients)} client(s)")
    for client in status.node.clients:
        yield from check_client(client)
    yield from check_unshared(status.node, machine.socket, machine.root)
    yield from _check_operators_directory(Path(machine.operator_socket).parent)


def _status_of(machine: CheckedMachine) -> admin.Status:
    """From the operator's socket; for a user who may not open it, from the one for reading."""
    try:
        return operator_client.ask_for(admin.Status, machine.operator_socket, admin.GetStatus())
    except operator_client.NotAllowedError as not_allowed:
        try:
            return operator_client.ask_for(admin.Status, machine.reader_socket, admin.GetStatus())
        except operator_client.UnreachableError:
            raise not_allowed from None


def _check_operators_directory(folder: Path) -> Iterator[Finding]:
    try:
        mode = stat.S_IMODE(folder.stat().st_mode)
    except PermissionError:
        return  # so other users may not open it
    if mode & 0o077:
        yield Finding("fail", f"{folder} is accessible to other users (mode {mode:o})", f"chmod 700 {folder}")
