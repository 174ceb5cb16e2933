"""`nvsharectl top` with a row for each user."""

import os

from msgspec.structs import replace

from cli.test_top import CARD, GIB, seat, status, text_of, top
from nvshare.cli.ctl.top_users import user_lines
from nvshare.cli.ctl.top_view import View, shown_rows
from nvshare.cli.ctl.users import user_name
from support.daemon import Daemon

NAME = user_name(os.getuid())


def test_the_programs_of_a_user_are_added_up() -> None:
    shown = status(
        ("one", replace(seat("running", gib=8), gpu_percent=60.0)),
        ("other", seat("waiting", place=1, gib=9)),
        ("third", replace(seat("idle", gib=0.5, turns=4), gpu_percent=30.0)),
    )
    uids = (900001, 900001, 900002)
    clients = [replace(client, uid=uid) for client, uid in zip(shown.node.clients, uids, strict=True)]
    shown = replace(shown, node=replace(shown.node, clients=tuple(clients)))
    rows = [line.split() for line in text_of(shown, View(by_user=True)).splitlines() if "90000" in line]
    assert rows == [
        ["900001", CARD[:12], "2", "1", "1", "17.00Gi", "60%", "2", "75%", "25%", "0Mi"],
        ["900002", CARD[:12], "1", "0", "0", "512Mi", "30%", "4", "75%", "25%", "0Mi"],
    ]
    by_turns = [line.split()[0] for line in user_lines(shown_rows(shown, View()), "turns")]
    assert by_turns == ["USER", "900002", "900001"]
    assert all(len(line) <= 60 for line in user_lines(shown_rows(shown, View()), "state", width=60))


def test_a_key_changes_between_programs_and_users(daemon: Daemon) -> None:
    with daemon.client().register(name=b"first") as first, daemon.client().register(name=b"second"):
        first.take_lock(9 * GIB)
        terminal = top(daemon.operator_socket, "--delay", "0.2")
        terminal.read_until(r"first +\S+ .*running")
        terminal.press("u")
        terminal.read_until(rf"{NAME} +\S+ +2 +1 +0 +9.00Gi")
        terminal.read_until("by state, per user")
        terminal.press("\r")
        terminal.press("u")
        terminal.read_until(r"first +\S+ .*running")
        terminal.press("q")
        assert terminal.end() == 0


def test_in_a_pipe_there_is_a_line_for_each_user(daemon: Daemon) -> None:
    assert daemon.ctl("top", "-n", "1", "--by", "user").endswith("no clients\n")
    with daemon.client().register() as first, daemon.client().register():
        first.take_lock(9 * GIB)
        lines = daemon.ctl("top", "-n", "1", "--by", "user").splitlines()
    assert [line.split()[1:2] + line.split()[3:7] for line in lines] == [
        ["USER", "CLIENTS", "RUN", "WAIT", "MEMORY"],
        [NAME, "2", "1", "0", "9.00Gi"],
    ]
