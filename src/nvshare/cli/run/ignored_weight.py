"""Warns of a weight that the scheduler ignores."""

import os
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
from nvshare.core.queue.policies import weights_ignored

TIMEOUT_S = 2.0


def warn_of_ignored_weight(weight: str, socket: str, environment: Mapping[str, str] = os.environ) -> None:
    """One line if the policy of the scheduler at `socket` ignores weights; none if it cannot be asked."""
    for path in _viewer_sockets(socket, environment):
        try:
            status = operator_client.ask_for(admin.Status, path, admin.GetStatus(), timeout_s=TIMEOUT_S)
        except (operator_client.UnreachableError, operator_client.RefusedError, admin.AdminError):
            continue
        if ignored := weights_ignored(status.node.policy):
            sys.stderr.write(
                f"nvshare: warning: the weight of {weight} has no effect: {ignored}; `nvsharectl set-policy fair`"
                " changes it\n"
            )
        return


def _viewer_sockets(socket: str, environment: Mapping[str, str]) -> list[str]:
    """Where the scheduler of this socket may answer."""
    private = SchedulerPaths(str(Path(socket).parent.parent))
    if socket == private.socket:
        return [private.operator_socket]
    if socket == DEFAULT_SOCKET:
        return [DEFAULT_READER_SOCKET, DEFAULT_OPERATOR_SOCKET]
    named = (environment.get(READER_SOCKET_VARIABLE), environment.get(OPERATOR_SOCKET_VARIABLE))
    return [path for path in named if path]
