"""What the lines of a step say of its clients."""

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.journal import Step
from nvshare.scheduler.observe.step_text import IDS, lines_of


def test_a_line_names_some_of_many_clients_and_counts_the_others() -> None:
    """Otherwise the lines of a step about n clients would take n² names."""
    drops = tuple(ac.DropLock(client, "g", client, "quantum") for client in range(1, 101))
    lines = lines_of(Step(1, 1.5, ev.AlarmRang(), drops), IDS)
    assert len(lines) == 100
    assert {(line.time, line.clients[0], len(line.clients), line.more_clients) for line in lines} == {
        (1.5, "0001", 64, 36)
    }


def test_a_line_names_all_of_few_clients() -> None:
    (line,) = lines_of(Step(1, 1.5, ev.AlarmRang(), (ac.DropLock(7, "g", 1, "quantum"),)), IDS)
    assert (line.clients, line.more_clients) == (("0007",), 0)
