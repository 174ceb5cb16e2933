"""Known cards. The figures are those of the simulated GPU's presets; docs/simulated-gpu.md has their sources.

`touch` is fitted on the P100, by the thesis (15.3 GB in 0.387 s of GPU time), and taken in proportion to the memory
bandwidth for the others. `gain` is the thesis' for the P100 and 0.9 on the T4, where two programs side by side were
slower than one after the other; 1 is assumed for the others. `ramp` is an assumption: measurements show that a few
percent too much cost a few times the time, and not everything."""

from nvshare.core.model import GIB, MIB
from nvshare.schedsim.card import CardModel
from nvshare.simgpu.cards import CARDS

RAMP = 0.25
_SWEEP_S = 0.387
_TOUCH_TO_BANDWIDTH = 15.3 / 0.387 / 89.5


def _card(name: str, size: int, *, gain: float = 1.0) -> CardModel:
    figures = CARDS[name]
    evict = 1 / (1 / figures.evicting - 1 / figures.faults) if figures.evicting else figures.link
    return CardModel(
        size,
        figures.faults,
        gain,
        _SWEEP_S,
        touch=figures.bandwidth * _TOUCH_TO_BANDWIDTH,
        ramp=RAMP,
        first_touch=figures.faults,
        evict=evict,
        link=figures.link,
    )


PRESETS = {
    "p100": _card("p100", 16_280 * MIB, gain=1.19),
    "t4": _card("t4", 15 * GIB, gain=0.9),
    "a100": _card("a100", 40 * GIB),
    "h100": _card("h100", 80 * GIB),
}
