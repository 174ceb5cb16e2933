"""Warns of a weight or a priority that the scheduler will not use."""

import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.run.scheduler_paths import SchedulerPaths
from nvshare.config import (
    DEFAULT_OPERATOR_SOCKET,
    DEFAULT_READER_SOCKET,
    DEFAULT_SOCKET,
    OPERATOR_SOCKET_VARIABLE,
    READER_SOCKET_VARIABLE,
)
from nvshare.core.model import DEFAULT_WEIGHT
from nvshare.core.queue.policies import weights_ignored
from nvshare.unix_socket import peer_credentials

TIMEOUT_S = 2.0


def warn_of_ignored_weight(weight: str, path: str, environment: Mapping[str, str] = os.environ) -> None:
    """One line if the policy of the scheduler at `path` ignores weights; none if it cannot be asked."""
    for viewer in _viewer_sockets(path, environment):
        try:
            status = operator_client.ask_for(admin.Status, viewer, admin.GetStatus(), timeout_s=TIMEOUT_S)
        except (operator_client.UnreachableError, operator_client.RefusedError, admin.AdminError):
            continue
        if ignored := weights_ignored(status.node.policy):
            sys.stderr.write(
                f"nvshare: warning: the weight of {weight} has no effect: {ignored}; `nvsharectl set-policy fair`"
                " changes it\n"
            )
        return


def warn_of_refused_terms(weight: str | None, priority: str | None, path: str) -> None:
    """One line if this user may not have the priority or the weight. The scheduler does not refuse the program: it
    takes 0 and 100 instead."""
    if os.geteuid() in (0, _scheduler_user(path)):
        return
    refused = [f"the priority of {priority} counts as 0"] if _number(priority) > 0 else []
    if _number(weight) > DEFAULT_WEIGHT:
        refused.append(f"the weight of {weight} counts as {DEFAULT_WEIGHT}")
    if refused:
        sys.stderr.write(
            f"nvshare: warning: {' and '.join(refused)}: only root and the user of the scheduler may have more, or"
            " set more while the program runs (nvsharectl set-priority, set-weight)\n"
        )


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch("[0-9]{1,9}", text) else 0


def _scheduler_user(path: str) -> int:
    """The credentials of a connected socket are those of the listening process."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        try:
            connection.connect(path)
            return peer_credentials(connection).uid
        except OSError:
            return os.geteuid()  # not known


def _viewer_sockets(path: str, environment: Mapping[str, str]) -> list[str]:
    """Where the scheduler of this socket may answer."""
    private = SchedulerPaths(str(Path(path).parent.parent))
    if path == private.socket:
        return [private.operator_socket]
    if os.path.realpath(path) == os.path.realpath(DEFAULT_SOCKET):  # /var/run is a link to /run
        return [DEFAULT_READER_SOCKET, DEFAULT_OPERATOR_SOCKET]
    named = (environment.get(READER_SOCKET_VARIABLE), environment.get(OPERATOR_SOCKET_VARIABLE))
    return [one for one in named if one]
