"""How wrong expected starts are: a machine whose programs always have work makes them nearly true."""

from nvshare.core.model import GIB, SECOND, QuantumRule, Settings
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Machine
from nvshare.schedsim.start_errors import Figures, StartError, StartErrors, figures


def test_the_error_is_what_a_wait_took_beyond_what_was_expected() -> None:
    errors = [StartError(10, 8), StartError(10, 12), StartError(10, 30)]
    assert [error.late_s for error in errors] == [-2, 2, 20]


def test_the_figures_are_of_all_waits() -> None:
    errors = [StartError(10, 8), StartError(10, 10.5), StartError(10, 14), StartError(10, 30)]
    assert figures(errors) == Figures(4, 0.5, 0.75, 4, 20, 1.4)
    assert figures([]) == Figures(0, 0, 0, 0, 0, 0)


def errors_of(*bursts: tuple[float, float]) -> list[StartError]:
    """Three programs of 9 GiB with these stretches of work and pauses take turns of 20 s on a card of 16 GiB."""
    jobs = [Job(f"job{number}", 9 * GIB, 0.0, bursts) for number in range(3)]
    settings = Settings(quantum=QuantumRule(mode="fixed", fixed_ns=20 * SECOND))
    machine = Machine({"gpu0": CardModel(16 * GIB, 10e9, 1.0, 1.0)}, jobs, settings, gate="nvshare")
    errors = StartErrors(machine)
    machine.run()
    return errors.found


def test_programs_that_are_always_busy_start_by_the_expected_time() -> None:
    errors = errors_of((100.0, 0.0))
    assert len(errors) > 5
    assert max(error.late_s for error in errors) < 0.1


def test_programs_that_pause_before_the_quantum_ends_are_expected_to_do_so_again() -> None:
    errors = errors_of(*[(2.0, 5.0)] * 30)
    assert len(errors) > 30
    found = figures(errors[len(errors) // 4 :])
    assert found.median_part > 0.7
    assert found.by_then > 0.9
