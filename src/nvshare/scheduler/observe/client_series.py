"""The metrics of each client, as text. Pure.

There are several series for each client and GPU, so with a thousand clients this is nearly all of a scrape. A metrics
library takes 8 µs for each series; here the labels of a client are written once, and the text is made in pieces of a
fraction of a millisecond. Series are made from the present clients, so they end with their client."""

from array import array
from collections.abc import Callable, Iterable, Iterator

from nvshare.admin import client_name
from nvshare.core.model import SECOND
from nvshare.core.snapshots.snapshot import ClientSnapshot, SeatSnapshot
from nvshare.record import Record

ROWS_PER_PIECE = 200


class Family(Record, frozen=True):
    """A metric that every client at a GPU has."""

    name: str
    kind: str
    help: str
    figure: Callable[[ClientSnapshot, SeatSnapshot], float]

    @property
    def head(self) -> str:
        return f"# HELP {self.name} {self.help}\n# TYPE {self.name} {self.kind}\n"


FAMILIES = (
    Family("nvshare_client_running", "gauge", "1 while the client holds the lock.", lambda _, seat: seat.is_running),
    Family(
        "nvshare_client_memory_bytes",
        "gauge",
        "Memory that the client allocated.",
        lambda _, seat: seat.memory_allocated,
    ),
    Family(
        "nvshare_client_memory_limit_bytes", "gauge", "Limit of the client; 0 means none.", lambda _, seat: seat.limit
    ),
    Family(
        "nvshare_client_core_limit_ratio",
        "gauge",
        "Part of the GPU's time that the client's group may use; 0 means no limit.",
        lambda _, seat: seat.core_limit_percent / 100,
    ),
    Family(
        "nvshare_client_weight",
        "gauge",
        "Weight of the client; policy fair divides the GPU's time by it.",
        lambda client, _: client.weight,
    ),
    Family(
        "nvshare_client_due_ratio",
        "gauge",
        "Part of the GPU's time that is due to the client by its weight now; 0 if it does not compete.",
        lambda _, seat: (seat.due_percent or 0) / 100,
    ),
    Family(
        "nvshare_client_host_memory_shortfall_bytes",
        "gauge",
        "GPU memory of the client that the host has no room for; it cannot be evicted.",
        lambda _, seat: seat.host_shortfall,
    ),
    Family(
        "nvshare_client_on_host_bytes",
        "gauge",
        "GPU memory of the client that is kept on the host because of its limit.",
        lambda _, seat: seat.on_host,
    ),
    Family(
        "nvshare_client_working_set_bytes",
        "gauge",
        "Swappable memory that the client has used lately; all of it if that is not known.",
        lambda _, seat: seat.swappable if seat.working_set is None else seat.working_set,
    ),
    Family(
        "nvshare_client_held_seconds_total",
        "counter",
        "Time for which the client has held the lock.",
        lambda _, seat: seat.held_ns / SECOND,
    ),
    Family(
        "nvshare_client_gpu_seconds_total",
        "counter",
        "Time for which work of the client has kept the GPU busy.",
        lambda _, seat: seat.gpu_ns / SECOND,
    ),
    Family(
        "nvshare_client_waited_seconds_total",
        "counter",
        "Time for which the client has waited.",
        lambda _, seat: seat.waited_ns / SECOND,
    ),
)

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def client_series(clients: Iterable[ClientSnapshot]) -> Iterator[bytes]:
    """The text of all families, piece by piece. While `clients` is read, empty pieces come in between. After that only
    the figures and labels are kept, for long if the peer reads slowly."""
    gpus: list[str] = []
    labels: list[bytes] = []
    figures = [array("d") for _ in FAMILIES]
    for client in clients:
        own = _labels(client)
        for seat in client.seats:
            gpus.append(seat.gpu)
            labels.append(own)
            for family, values in zip(FAMILIES, figures, strict=True):
                values.append(family.figure(client, seat))
        yield b""
    for family, values in zip(FAMILIES, figures, strict=True):
        yield family.head.encode()
        for start in range(0, len(gpus), ROWS_PER_PIECE):
            part = slice(start, start + ROWS_PER_PIECE)
            yield _rows(family.name, zip(gpus[part], labels[part], values[part], strict=True))


def _rows(name: str, rows: Iterable[tuple[str, bytes, float]]) -> bytes:
    return "".join([f'{name}{{gpu="{gpu}",{own.decode()} {value}\n' for gpu, own, value in rows]).encode()


def _labels(client: ClientSnapshot) -> bytes:
    """All but the GPU. As bytes: a string takes up to four for each character."""
    group, name = client.label.translate(_ESCAPES), client.name.translate(_ESCAPES)
    return f'client="{client_name(client.id)}",group="{group}",name="{name}",pid="{client.pid}"}}'.encode()
