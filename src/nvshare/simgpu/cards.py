"""Known cards: what is published about their speeds. docs/simulated-gpu.md has the sources; the simulated driver has
the same figures in native/simgpu/state/presets.c."""

from nvshare.record import Record

GB = 1e9


class CardFigures(Record, frozen=True):
    """Bytes per second."""

    bandwidth: float
    """Of the memory on the card."""
    link: float
    """To the host, each way."""
    faults: float
    """Managed memory that page faults bring in."""
    evicting: float = 0.0
    """The same on a full card; 0: pages go out at the link's speed before others come in."""


CARDS = {
    "p100": CardFigures(89.5 * GB, 12 * GB, 2.9 * GB),
    "t4": CardFigures(320 * GB, 12 * GB, 5 * GB, 0.35 * GB),
    "a100": CardFigures(1555 * GB, 25 * GB, 8.2 * GB),
    "h100": CardFigures(2000 * GB, 50 * GB, 8.2 * GB),
}
SIMULATED_BY_DEFAULT = CARDS["p100"]


def named(name: str) -> CardFigures | None:
    """The figures of a card by the name that NVML gives it (`NVIDIA A100-SXM4-40GB`)."""
    words = name.lower().replace("-", " ").split()
    return next((figures for card, figures in CARDS.items() if card in words), None)
