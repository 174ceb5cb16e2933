"""The PCIe link of a GPU, and how fast a bulk copy over it is."""

from nvshare.record import Record

LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Of each generation, one way: the transfer rate less the encoding (8b/10b, 128b/130b, flits)."""
WIDTHS = (1, 2, 4, 8, 12, 16, 32)
EFFICIENCY = 0.78
"""The rest goes to packet headers and flow control. Copies of pinned memory: about 12 of 15.75 GB/s (PCIe 3 x16), 25 of
31.5 GB/s (PCIe 4 x16)."""


class Link(Record, frozen=True):
    """A generation and a width that exist."""

    generation: int
    width: int

    def __str__(self) -> str:
        return f"PCIe {self.generation} x{self.width}"

    @property
    def copy_bytes_per_s(self) -> int:
        """What a bulk copy gets, each way."""
        return round(LANE_BYTES_PER_S[self.generation] * self.width * EFFICIENCY)


def link(generation: int | None, width: int | None) -> Link | None:
    """As NVML tells it. None if it tells nothing, or what no PCIe link has: a virtual GPU, or one that has another link
    to the host, may report anything."""
    if generation not in LANE_BYTES_PER_S or width not in WIDTHS:
        return None
    return Link(generation, width)
