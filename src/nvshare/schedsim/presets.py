"""Known cards. The figures are those of the simulated GPU's presets; docs/simulated-gpu.md has their sources.

`touch` is fitted on the P100, by the thesis (15.3 GB in 0.387 s of GPU time), and taken in proportion to the memory
bandwidth for the others. `gain` is the thesis' for the P100 and 0.9 on the T4, where two programs side by side were
slower than one after the other; 1 is assumed for the others. `ramp` is an assumption: measurements show that a few
percent too much cost a few times the time, and not everything."""

from nvshare.core.model import GIB, MIB
from nvshare.schedsim.card import CardModel

GB = 1e9
RAMP = 0.25
_SWEEP_S = 0.387
_TOUCH_TO_BANDWIDTH = 15.3 / 0.387 / 89.5


def _card(
    size: int, *, bandwidth: float, link: float, faults: float, evicting: float = 0.0, gain: float = 1.0
) -> CardModel:
    """Speeds in GB/s. `evicting`: of faults on a full card; 0: pages go out at the link's speed before others come."""
    evict = 1 / (1 / evicting - 1 / faults) if evicting else link
    return CardModel(
        size,
        faults * GB,
        gain,
        _SWEEP_S,
        touch=bandwidth * _TOUCH_TO_BANDWIDTH * GB,
        ramp=RAMP,
        first_touch=faults * GB,
        evict=evict * GB,
        link=link * GB,
    )


PRESETS = {
    "p100": _card(16_280 * MIB, bandwidth=89.5, link=12, faults=2.9, gain=1.19),
    "t4": _card(15 * GIB, bandwidth=320, link=12, faults=5, evicting=0.35, gain=0.9),
    "a100": _card(40 * GIB, bandwidth=1555, link=25, faults=8.2),
    "h100": _card(80 * GIB, bandwidth=2000, link=50, faults=8.2),
}
