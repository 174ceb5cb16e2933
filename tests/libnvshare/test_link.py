"""The link that NVML reports is the first guess of what a move costs: a real scheduler on the simulated NVML, real
programs under the library."""

from pathlib import Path
from typing import Any

import pytest

from libnvshare.machine import Machine
from libnvshare.programs import GIB
from nvshare.inventory.pcie import Link
from nvshare.schedsim.replay import replay
from support.waiting import wait_until

BY_FAULTS = 0.2
"""Seconds a GiB, as long as nothing is known."""


def cost(machine: Machine) -> float:
    """Seconds to move a GiB, as the scheduler assumes it."""
    gpu = machine.daemon.status()["gpus"][0]
    assert not gpu["is_move_cost_measured"]
    return float(gpu["move_cost_seconds"])


def by_link(link: Link) -> float:
    return GIB / link.copy_bytes_per_s


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, by_link(Link(3, 16))),
        ({"card": "a100"}, by_link(Link(4, 16))),
        ({"nvml_link": "3x4"}, by_link(Link(3, 4))),
        ({"nvml_link": "0"}, BY_FAULTS),
    ],
)
def test_the_scheduler_assumes_the_speed_of_the_link(tmp_path: Path, settings: dict[str, Any], wanted: float) -> None:
    with Machine(tmp_path, has_nvml=True, **settings) as machine:
        assert cost(machine) == pytest.approx(wanted, rel=1e-6)


def test_it_does_so_only_while_all_programs_move_memory_in_bulk(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with Machine(tmp_path, "--journal-file", str(journal), has_nvml=True) as machine:
        wanted = by_link(Link(3, 16))
        machine.client(GIB)
        wait_until(lambda: machine.clients() and machine.clients()[0]["swappable_bytes"], "its memory is reported")
        assert cost(machine) == pytest.approx(wanted, rel=1e-6)
        faulting = machine.client(GIB, NVSHARE_PREFETCH="0")
        wait_until(lambda: cost(machine) == BY_FAULTS, "one moves its memory by faults")
        faulting.process.kill()
        wait_until(lambda: cost(machine) != BY_FAULTS, "it is gone")
        assert cost(machine) == pytest.approx(wanted, rel=1e-6)
        machine.daemon.stop()
    with journal.open("rb") as lines:
        assert replay(lines).difference is None
