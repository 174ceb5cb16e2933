"""The accounts of clients, by the names that this machine has for them."""

import os
import pwd

from msgspec.structs import replace

from nvshare.core.snapshots.snapshot import Snapshot


def user_name(uid: int | None) -> str:
    if uid is None:
        return "-"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def only_user(node: Snapshot, user: str | None) -> Snapshot:
    """The state with the clients of one user only; None: of all."""
    if user is None:
        return node
    wanted = user_id(user)
    return replace(node, clients=tuple(client for client in node.clients if client.uid == wanted))


def user_id(user: str) -> int:
    """Of a name, a number or `me`; raises KeyError if this machine does not know the name."""
    if user == "me":
        return os.getuid()
    return int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
