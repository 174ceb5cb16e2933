"""What NVML's figures mean for the core, given who is a client."""

from nvshare.core.events import ClientRegistered, MemoryMeasured
from nvshare.core.model import GIB, MIB, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.inventory.gpus import Sample
from nvshare.scheduler.measure import measured


def node_with(*memories: Memory) -> Node:
    node = Node(Settings(), epoch=1)
    for number, memory in enumerate(memories, 1):
        claim = Claim("g", 16 * GIB, memory=memory)
        node.handle(0, ClientRegistered(number, f"process/{number}", "x", "x", (claim,), pid=number))
    return node


def sample_of(processes: dict[int, int]) -> Sample:
    return Sample(processes, used_bytes=sum(processes.values()), total_bytes=16 * GIB)


def test_memory_of_processes_that_are_not_clients_is_foreign() -> None:
    node = node_with(Memory(GIB, 0, 1))
    sample = sample_of({1: 5 * GIB, 77: 2 * GIB, 78: GIB})
    assert measured("g", sample, node.clients) == MemoryMeasured("g", 3 * GIB)


def test_a_client_with_nothing_but_a_context_shows_what_one_costs() -> None:
    node = node_with(Memory(GIB, 0, 1), Memory(0, 0, 1))
    sample = sample_of({1: 5 * GIB, 2: 300 * MIB})
    assert measured("g", sample, node.clients) == MemoryMeasured("g", 0, 300 * MIB)


def test_the_cheapest_context_counts_and_one_that_cannot_be_is_a_lie() -> None:
    """A client that hides what it allocated must not make everybody's contexts look expensive."""
    node = node_with(Memory(0, 0, 1), Memory(0, 0, 1), Memory(0, 0, 1))
    sample = sample_of({1: 12 * GIB, 2: 310 * MIB, 3: 500 * MIB})
    assert measured("g", sample, node.clients) == MemoryMeasured("g", 0, 310 * MIB)
    assert measured("g", sample_of({1: 12 * GIB}), node.clients) == MemoryMeasured("g", 0)
