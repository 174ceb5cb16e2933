"""The process at the other end of a connected unix socket, as the kernel knows it."""

import os
import socket
import struct

from nvshare.record import Record


class PeerCredentials(Record, frozen=True):
    """Of the process that connected, or that listens; `pid` is 0 if it is in a PID namespace that we cannot see."""

    pid: int
    uid: int
    gid: int


def peer_credentials(connection: socket.socket) -> PeerCredentials:
    return PeerCredentials(*struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))


def is_operator(uid: int) -> bool:
    """Root and the user of this process may give orders."""
    return uid in (0, os.geteuid())
