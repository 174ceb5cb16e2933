"""The users in `top`: what the programs of each have together, on each GPU. Pure: no terminal, no clock."""

from collections.abc import Callable, Iterable

from nvshare.cli.ctl.render import gpu_short
from nvshare.cli.ctl.text_table import table
from nvshare.cli.ctl.top_rows import Row
from nvshare.cli.ctl.users import user_name
from nvshare.quantity import size
from nvshare.record import Record

HEAD = ("USER", "GPU", "CLIENTS", "RUN", "WAIT", "MEMORY", "UTIL", "TURNS", "RAN", "WAITED", "MOVED")


class UserSum(Record, frozen=True):
    """The clients of one user at one GPU, in the order in which they are shown."""

    user: str
    rows: tuple[Row, ...]

    def total(self, value: Callable[[Row], float]) -> float:
        return sum(map(value, self.rows))


_VALUES: dict[str, Callable[[Row], float]] = {
    "memory": lambda row: row.seat.memory_allocated,
    "turns": lambda row: row.seat.turns,
    "ran": lambda row: row.seat.held_ns,
    "gpu": lambda row: row.seat.gpu_percent,
    "waited": lambda row: row.seat.waited_ns,
}


def sums(shown: Iterable[Row], sort: str, *, is_reversed: bool = False) -> list[UserSum]:
    """GPU by GPU. If `sort` is no column of numbers, a user is where the first of its clients is."""
    found: dict[tuple[str, int | None], list[Row]] = {}
    for row in shown:
        found.setdefault((row.gpu.uuid, row.client.uid), []).append(row)
    users = [UserSum(user_name(uid), tuple(rows)) for (_, uid), rows in found.items()]
    gpus = list(dict.fromkeys(gpu for gpu, _ in found))
    if sort in _VALUES:
        users.sort(key=lambda one: one.total(_VALUES[sort]), reverse=not is_reversed)
        users.sort(key=lambda one: gpus.index(one.rows[0].gpu.uuid))
    return users


def user_lines(shown: Iterable[Row], sort: str, *, is_reversed: bool = False, width: int | None = None) -> list[str]:
    """The header, and a line for each user of each GPU."""
    cells = [_cells(one) for one in sums(shown, sort, is_reversed=is_reversed)]
    return table(HEAD, cells, width=width, drop=("MOVED", "TURNS", "WAITED", "RAN"), cut=("USER",)).splitlines()


def _cells(one: UserSum) -> list[str]:
    held, waited = one.total(_VALUES["ran"]), one.total(_VALUES["waited"])
    return [
        one.user,
        gpu_short(one.rows[0].gpu),
        str(len(one.rows)),
        str(sum(row.seat.is_running for row in one.rows)),
        str(sum(row.seat.state == "waiting" for row in one.rows)),
        size(one.total(_VALUES["memory"])),
        f"{one.total(_VALUES['gpu']):.0f}%",
        f"{one.total(_VALUES['turns']):.0f}",
        *(f"{100 * part / (held + waited):.0f}%" if held + waited else "-" for part in (held, waited)),
        size(one.total(lambda row: row.seat.moved.in_bytes + row.seat.moved.out_bytes)),
    ]
