"""What clients and groups got of a GPU's time, beside what they may have or are due. Pure."""

from nvshare.core.snapshots.group_use import Together
from nvshare.core.snapshots.snapshot import ClientSnapshot, SeatSnapshot, Snapshot


class ShareCells:
    """Cells of tables, of one state. A core limit is a group's, so what its processes got counts together; a weight is
    a process's."""

    def __init__(self, node: Snapshot) -> None:
        self._had = Together(node.clients)

    def group(self, client: ClientSnapshot, seat: SeatSnapshot) -> str:
        """What its group had."""
        return f"{self._had.group(client, seat):.0f}%"

    def user(self, client: ClientSnapshot, seat: SeatSnapshot) -> str:
        """What all programs of its user had; `-` if the user is not known."""
        had = self._had.user(client, seat)
        return "-" if had is None else f"{had:.0f}%"

    def core(self, client: ClientSnapshot, seat: SeatSnapshot) -> str:
        """What its group had, and its core limit; `-` without one."""
        return f"{self.group(client, seat)} of {seat.core_limit_percent}%" if seat.core_limit_percent else "-"


def due_cell(seat: SeatSnapshot) -> str:
    """What it had, and what it is due by its weight; `-` if weights do not count, or it does not compete."""
    return "-" if seat.due_percent is None else f"{seat.gpu_percent:.0f}% of {seat.due_percent:.0f}%"
