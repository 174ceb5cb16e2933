"""The metrics of each client, as text. Pure.

There are several series for each client and GPU, so with a thousand clients this is nearly all of a scrape. A metrics
library takes 8 µs for each series; here the labels of a client are written once, and the text is made in pieces of a
fraction of a millisecond. Series are made from the present clients, so they end with their client."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from nvshare.admin import client_name
from nvshare.core.model import SECOND
from nvshare.core.snapshot import ClientSnapshot, SeatSnapshot
from nvshare.record import Record

ROWS_PER_PIECE = 200


class Family(Record, frozen=True):
    """A metric that every client at a GPU has."""

    name: str
    kind: str
    help: str
    figure: Callable[[SeatSnapshot], float]

    @property
    def head(self) -> str:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n"


FAMILIES = (
    Family("nvshare_client_running", "gauge", "1 while the client holds the lock.", lambda seat: seat.is_running),
    Family(
        "nvshare_client_memory_bytes", "gauge", "Memory that the client allocated.", lambda seat: seat.memory_allocated
    ),
    Family("nvshare_client_memory_limit_bytes", "gauge", "Limit of the client; 0 means none.", lambda seat: seat.limit),
    Family(
        "nvshare_client_core_limit_ratio",
        "gauge",
        "Part of the GPU's time that the client's group may use; 0 means no limit.",
        lambda seat: seat.core_limit_percent / 100,
    ),
    Family(
        "nvshare_client_host_memory_shortfall_bytes",
        "gauge",
        "GPU memory of the client that the host has no room for; it cannot be evicted.",
        lambda seat: seat.host_shortfall,
    ),
    Family(
        "nvshare_client_on_host_bytes",
        "gauge",
        "GPU memory of the client that is kept on the host because of its limit.",
        lambda seat: seat.on_host,
    ),
    Family(
        "nvshare_client_working_set_bytes",
        "gauge",
        "Swappable memory that the client has used lately; all of it if that is not known.",
        lambda seat: seat.swappable if seat.working_set is None else seat.working_set,
    ),
    Family(
        "nvshare_client_held_seconds_total",
        "counter",
        "Time for which the client has held the lock.",
        lambda seat: seat.held_ns / SECOND,
    ),
    Family(
        "nvshare_client_gpu_seconds_total",
        "counter",
        "Time for which work of the client has kept the GPU busy.",
        lambda seat: seat.gpu_ns / SECOND,
    ),
    Family(
        "nvshare_client_waited_seconds_total",
        "counter",
        "Time for which the client has waited.",
        lambda seat: seat.waited_ns / SECOND,
    ),
)

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def client_series(clients: Iterable[ClientSnapshot]) -> Iterator[bytes]:
    """The text of all families, piece by piece. While `clients` is read, empty pieces come in between."""
    seats: list[tuple[str, SeatSnapshot]] = []
    labelled = ((_labels(client, seat), seat) for client in clients for seat in client.seats)
    while piece := list(islice(labelled, ROWS_PER_PIECE)):
        seats.extend(piece)
        yield b""
    for family in FAMILIES:
        yield family.head.encode()
        name, figure = family.name, family.figure
        for start in range(0, len(seats), ROWS_PER_PIECE):
            rows = [f"{name}{labels} {float(figure(seat))}\n" for labels, seat in seats[start : start + ROWS_PER_PIECE]]
            yield "".join(rows).encode()


def _labels(client: ClientSnapshot, seat: SeatSnapshot) -> str:
    group, name = client.label.translate(_ESCAPES), client.name.translate(_ESCAPES)
    return f'{{gpu="{seat.gpu}",client="{client_name(client.id)}",group="{group}",name="{name}",pid="{client.pid}"}}'
