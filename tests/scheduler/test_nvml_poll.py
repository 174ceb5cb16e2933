"""What NVML's figures mean for the core, given who is a client."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from nvshare.core.events import ClientRegistered, MemoryMeasured, UtilizationMeasured
from nvshare.core.model import GIB, MIB, Claim, Memory, ProcessMemory, Settings
from nvshare.core.node import Node
from nvshare.inventory.gpus import Sample
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.sources import nvml_poll


def node_with(*memories: Memory) -> Node:
    node = Node(Settings(), epoch=1)
    for number, memory in enumerate(memories, 1):
        claim = Claim("g", 16 * GIB, memory=memory)
        node.handle(0, ClientRegistered(number, f"process/{number}", "x", "x", (claim,), pid=number))
    return node


def sample_of(processes: dict[int, int]) -> Sample:
    return Sample(processes, used_bytes=sum(processes.values()), total_bytes=16 * GIB)


def measured(sample: Sample, node: Node) -> MemoryMeasured:
    """Without what it says of clients."""
    return replace(measured_all(sample, node), processes=())


def measured_all(sample: Sample, node: Node) -> MemoryMeasured:
    return nvml_poll.measured("g", sample, node.clients, nvml_poll.reported("g", node.clients))


def test_memory_of_processes_that_are_not_clients_is_foreign() -> None:
    node = node_with(Memory(GIB, 0, 1))
    sample = sample_of({1: 5 * GIB, 77: 2 * GIB, 78: GIB})
    assert measured(sample, node) == MemoryMeasured("g", 3 * GIB)


def test_a_client_with_nothing_but_a_context_shows_what_one_costs() -> None:
    node = node_with(Memory(GIB, 0, 1), Memory(0, 0, 1))
    sample = sample_of({1: 5 * GIB, 2: 300 * MIB})
    assert measured(sample, node) == MemoryMeasured("g", 0, 300 * MIB)


def test_the_cheapest_context_counts_and_one_that_cannot_be_is_a_lie() -> None:
    """A client that hides what it allocated must not make everybody's contexts look expensive."""
    node = node_with(Memory(0, 0, 1), Memory(0, 0, 1), Memory(0, 0, 1))
    sample = sample_of({1: 12 * GIB, 2: 310 * MIB, 3: 500 * MIB})
    assert measured(sample, node) == MemoryMeasured("g", 0, 310 * MIB)
    assert measured(sample_of({1: 12 * GIB}), node) == MemoryMeasured("g", 0)


def test_a_client_that_reports_more_than_nvml_sees_has_what_nvml_sees() -> None:
    node = node_with(Memory(GIB, 3 * GIB), Memory(0, GIB), Memory(GIB), Memory(0, 2 * GIB))
    sample = sample_of({1: 2 * GIB, 2: 5 * GIB, 3: 7 * GIB})
    assert measured_all(sample, node).processes == (
        ProcessMemory(1, 2 * GIB, 3 * GIB),
        ProcessMemory(2, GIB, GIB),
        ProcessMemory(4, 0, 2 * GIB),
    )


def test_what_nvml_does_not_know_is_not_zero() -> None:
    node = node_with(Memory(0, GIB), Memory(0, GIB))
    assert measured_all(sample_of({}), node).processes == ()
    assert measured_all(sample_of({1: 0, 2: 0}), node).processes == ()


def test_the_connections_of_one_process_share_what_it_has() -> None:
    node = node_with(Memory(0, 2 * GIB))
    claim = Claim("g", 16 * GIB, memory=Memory(0, 2 * GIB))
    node.handle(0, ClientRegistered(2, "process/1", "x", "x", (claim,), pid=1))
    assert measured_all(sample_of({1: 3 * GIB}), node).processes == (
        ProcessMemory(1, 2 * GIB, 2 * GIB),
        ProcessMemory(2, GIB, 2 * GIB),
    )


class ListingNvml:
    """NVML that lists these processes."""

    def __init__(self) -> None:
        self.processes: dict[int, int] = {}
        self.utilization_percent: int | None = None

    def sample(self, gpu: str) -> Sample:
        return replace(sample_of(self.processes), utilization_percent=self.utilization_percent)


def test_a_process_that_is_no_client_at_two_looks_is_named() -> None:
    """At the first look it may be about to register."""
    nvml = ListingNvml()

    async def main() -> list[tuple[int, ...]]:
        node = node_with(Memory(GIB))
        poll = nvml_poll.NvmlPoll(Engine(node, asyncio.get_running_loop()), cast("Any", nvml))
        found = []
        for foreign in ({77: 3 * GIB}, {77: 3 * GIB}, {}):
            nvml.processes = {1: GIB, **foreign}
            await poll._measure("g")
            found.append(node.gpus["g"].foreign_pids)
        return found

    assert asyncio.run(main()) == [(), (77,), ()]


def test_a_process_with_the_library_counts_from_the_second_look_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it may register: memory of the scheduler's own clients is not foreign, and refuses nobody memory."""
    for pid, name in ((77, "libnvshare.so"), (78, "libcuda.so")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "maps").write_text(f"7f00-7f01 r-xp 0 0:0 1 /usr/lib/{name}\n")
    monkeypatch.setattr(nvml_poll, "_PROC", tmp_path)
    nvml = ListingNvml()
    nvml.processes = {1: GIB, 77: 3 * GIB, 78: 2 * GIB, 79: GIB}

    async def main() -> list[int]:
        node = node_with(Memory(GIB))
        poll = nvml_poll.NvmlPoll(Engine(node, asyncio.get_running_loop()), cast("Any", nvml))
        found = []
        for _ in range(2):
            await poll._measure("g")
            found.append(node.gpus["g"].memory.foreign)
        return found

    assert asyncio.run(main()) == [3 * GIB, 6 * GIB]


def test_every_reading_of_the_utilisation_is_told_to_the_core_and_none_is_not_zero() -> None:
    nvml = ListingNvml()
    told: list[int] = []

    async def main() -> None:
        engine = Engine(node_with(Memory(GIB)), asyncio.get_running_loop())
        engine.observers_of[UtilizationMeasured].append(lambda step: told.append(cast("Any", step.event).percent))
        poll = nvml_poll.NvmlPoll(engine, cast("Any", nvml))
        for nvml.utilization_percent in (None, 40, 40, 0):
            await poll._measure("g")

    asyncio.run(main())
    assert told == [40, 40, 0]


def test_the_utilisation_of_a_gpu_that_has_gone_meanwhile_is_not_told() -> None:
    nvml = ListingNvml()
    nvml.utilization_percent = 40

    async def main() -> bool:
        engine = Engine(node_with(), asyncio.get_running_loop())
        await nvml_poll.NvmlPoll(engine, cast("Any", nvml))._measure("g")
        return "g" in engine.node.gpus

    assert not asyncio.run(main())
