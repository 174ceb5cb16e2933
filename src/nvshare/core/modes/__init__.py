"""How a GPU's time is divided: one class for each mode, by the name that the operator uses.

A mode decides for one GPU: the quantum, when an idle holder loses its lock, by how much a client's rank is later than
its policy says (the lag), which client leaves first, and how long a wait can be. What is *not* here: which clients fit
(memory.memory_planner), the order of the queue (queue.policies), and the actions (queue.preemption, queue.admission,
queue.notices)."""

from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import ModeName, QuantumRule, Settings
from nvshare.core.modes.adaptive import Adaptive
from nvshare.core.modes.auto import Auto
from nvshare.core.modes.balanced import Balanced
from nvshare.core.modes.fixed import Fixed
from nvshare.core.modes.mode import Mode

MODES: dict[ModeName, type[Mode]] = {"auto": Auto, "fixed": Fixed, "adaptive": Adaptive, "balanced": Balanced}


def make_mode(rule: QuantumRule, settings: Settings, memory: MemoryPlanner) -> Mode:
    return MODES[rule.mode](rule, settings, memory)
