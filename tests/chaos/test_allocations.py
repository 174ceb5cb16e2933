"""The short form of the allocations in `make chaos`."""

from pathlib import Path

from chaos.allocations import Allocations, Plan


def test_an_allocation_succeeds_exactly_if_it_fits(tmp_path: Path) -> None:
    """While processes and the scheduler are killed and the limit is changed."""
    plan = Plan(allocations=20_000, kill_every_s=1, restart_every_s=3, change_every_s=0.8, most_s=60)
    report = Allocations(tmp_path, plan).run()
    assert report.complaints == []
    assert (report.wrong_refusals, report.over_limit, report.failures) == (0, 0, 0)
    assert report.allocations >= 20_000
    assert report.refusals > 0
