"""What groups with a core limit wanted and got of a GPU's time, in a cell of a table. Pure."""

from nvshare.core.snapshot import ClientSnapshot, SeatSnapshot, Snapshot


class CoreShares:
    """Of one state. A limit is a group's, so what its processes got counts together."""

    def __init__(self, node: Snapshot) -> None:
        self._got: dict[tuple[str, str], float] = {}
        for client in node.clients:
            for seat in client.seats:
                if seat.core_limit_percent:
                    key = client.group, seat.gpu
                    self._got[key] = self._got.get(key, 0.0) + seat.gpu_percent

    def __bool__(self) -> bool:
        """Anybody has a core limit."""
        return bool(self._got)

    def cell(self, client: ClientSnapshot, seat: SeatSnapshot) -> str:
        """Got and wanted; `-` without a limit."""
        got = self._got.get((client.group, seat.gpu))
        return "-" if got is None else f"{got:.0f}% of {seat.core_limit_percent}%"
