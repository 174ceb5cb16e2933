"""What is remembered of the steps: in memory within bounds, in a file that may be slow, full or taken away."""

import json
import time
from pathlib import Path

from nvshare.core.actions import AcceptClient, GiveLock
from nvshare.core.events import ClientLeft, ClientRegistered, LockRequested
from nvshare.core.model import NO_MEMORY, Claim
from nvshare.journal import Step, read
from nvshare.scheduler.observe.journal import PARTS_PER_STEP, Journal, JournalFile
from support.client import GIB, gpu_name
from support.fixtures import StartDaemon


def step(number: int, client: int = 1) -> Step:
    return Step(number, 1.5, LockRequested(client, "g", NO_MEMORY), (GiveLock(client, "g", number, False),))


def test_only_the_newest_steps_are_remembered() -> None:
    journal = Journal(10)
    for number in range(25):
        journal.observe(step(number))
    assert [one.now for one in journal.all()] == list(range(15, 25))
    numbered = [journal.step(number) for number in range(14, 25)]
    assert [one and one.now for one in numbered] == [None, *range(15, 25)]
    assert (journal.first, journal.count) == (15, 25)


def test_steps_about_many_things_count_for_as_many() -> None:
    claims = tuple(Claim(f"g{number}", GIB) for number in range(64))
    big = Step(1, 0.0, ClientRegistered(1, "run/x", "x", "x", claims), (AcceptClient(1, True),))
    journal = Journal(1000)
    for _ in range(1000):
        journal.observe(big)
    assert len(journal.all()) == 1000 * PARTS_PER_STEP // 65


def registered(now: int, name: str, client: int = 1) -> Step:
    return Step(now, 0.0, ClientRegistered(client, "run/x", "x", name, ()), ())


def test_a_name_is_kept_until_the_end_of_its_client_is_forgotten() -> None:
    journal = Journal(3)
    journal.observe(registered(1, "train"))
    journal.observe(Step(2, 0.0, ClientLeft(1), ()))
    for number in range(3, 5):
        journal.observe(step(number, client=2))
    assert journal.programs == {1: "train"}
    journal.observe(step(5, client=2))
    assert journal.programs == {}


def test_the_name_of_a_client_stays_when_the_end_of_an_earlier_one_with_its_id_is_forgotten() -> None:
    journal = Journal(3)
    journal.observe(registered(1, "first"))
    journal.observe(Step(2, 0.0, ClientLeft(1), ()))
    journal.observe(registered(3, "second"))
    for number in range(4, 8):
        journal.observe(step(number))
    assert journal.programs == {1: "second"}
    journal.observe(Step(8, 0.0, ClientLeft(1), ()))
    journal.observe(registered(9, "third"))
    journal.observe(Step(10, 0.0, ClientLeft(1), ()))
    journal.observe(step(11))  # The end of the second is forgotten, that of the third is not.
    assert journal.programs == {1: "third"}


def test_followers_get_new_steps_until_they_stop() -> None:
    journal = Journal(10)
    heard: list[Step] = []
    stop = journal.follow(heard.append)
    journal.observe(step(1))
    stop()
    journal.observe(step(2))
    assert [one.now for one in heard] == [1]


def lines(path: Path) -> list[int]:
    return [json.loads(line)["now"] for line in path.read_text().splitlines()]


def test_the_file_has_every_step_as_a_line_that_names_what_happened(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = JournalFile(path, 1 << 20)
    for number in range(5):
        file.observe(step(number))
    file.close()
    assert lines(path) == [0, 1, 2, 3, 4]
    first = json.loads(path.read_text().splitlines()[0])
    assert first["event"] == {
        "LockRequested": {"client": 1, "gpu": "g", "memory": {"swappable": 0, "unswappable": 0, "contexts": 0}}
    }
    assert [list(action) for action in first["actions"]] == [["GiveLock"]]
    assert file.lost == 0


def test_a_file_that_has_grown_is_kept_once_and_a_new_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = JournalFile(path, 2000)
    for number in range(50):
        file.observe(step(number))
    file.close()
    old, new = lines(tmp_path / "journal.1"), lines(path)
    assert [*old, *new] == list(range(50 - len(old) - len(new), 50))
    assert path.stat().st_size <= 2000
    assert (tmp_path / "journal.1").stat().st_size <= 2000
    assert sorted(one.name for one in tmp_path.iterdir()) == ["journal", "journal.1"]


def test_a_file_that_cannot_be_renamed_does_not_grow_further(tmp_path: Path) -> None:
    path, said = tmp_path / "journal", list[str]()
    (tmp_path / "journal.1").mkdir()
    file = JournalFile(path, 2000, said.append)
    for number in range(50):
        file.observe(step(number))
    file.close()
    kept = lines(path)
    assert (kept, file.lost) == (list(range(len(kept))), 50 - len(kept))
    assert path.stat().st_size <= 2000
    assert said == [f"The journal file {path} loses lines: Is a directory; 1 lost so far"]


def test_a_file_that_was_removed_before_it_is_renamed_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = JournalFile(path, 2000)
    path.unlink()
    for number in range(50):
        file.observe(step(number))
    file.close()
    assert (lines(path)[-1], file.lost) == (49, 0)


def test_a_file_that_loses_lines_is_said_once_a_minute(tmp_path: Path) -> None:
    said: list[str] = []
    file = JournalFile(Path("/dev/full"), 1 << 20, said.append)
    for number in range(5):
        file.observe(step(number))
    file.close()
    assert file.lost == 5
    assert said == ["The journal file /dev/full loses lines: No space left on device; 1 lost so far"]


def test_a_restarted_scheduler_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for number in range(2):
        file = JournalFile(path, 1 << 20)
        file.observe(step(number))
        file.close()
    assert lines(path) == [0, 1]


def test_a_full_disk_costs_lines_that_are_counted(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("--journal-file", "/dev/full", "--http", "127.0.0.1:0")
    with daemon.client().register() as client:
        client.release(client.take_lock())
        client.take_lock()
    daemon.log.wait_for("Client left")
    deadline = time.monotonic() + 60
    reads = 1  # Each is a step too (GpuTimeAsked).
    while (lost := daemon.metric("nvshare_journal_lost_steps_total")) != 6 + reads:  # How it began, and 5 steps.
        assert time.monotonic() < deadline, f"{lost} steps are counted as lost"
        reads += 1
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log.text
    assert "Exception" not in daemon.log.text


def test_lost_lines_are_counted_one_for_one(tmp_path: Path) -> None:
    del tmp_path
    file = JournalFile(Path("/dev/full"), 1 << 20)
    for number in range(500):
        file.observe(step(number))
    file.close()
    assert file.lost == 500


def test_when_the_disk_has_room_again_lines_are_whole(tmp_path: Path) -> None:
    """The place is taken away while it runs and comes back; what was written before and after can be read."""
    folder = tmp_path / "folder"
    folder.mkdir()
    file = JournalFile(folder / "journal", 400)
    folder.rename(tmp_path / "elsewhere")
    for number in range(20):
        file.observe(step(number))
    file.close()
    assert 0 < file.lost < 20
    kept = [line for path in (tmp_path / "elsewhere").iterdir() for line in lines(path)]
    assert len(kept) == 20 - file.lost


def test_the_schedulers_own_file_tells_what_happened(start_daemon: StartDaemon, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    daemon = start_daemon("--journal-file", str(path))
    with daemon.client().register() as client:
        client.take_lock(GIB)
    daemon.log.wait_for("Client left")
    assert daemon.stop() == 0
    began, *steps = [json.loads(line) for line in path.read_text().splitlines()]
    assert began["daemon"]["settings"]["quantum"]["mode"] == "balanced"
    assert [next(iter(one["event"])) for one in steps] == ["ClientRegistered", "LockRequested", "ClientLeft"]
    given = steps[1]["actions"][0]["GiveLock"]
    assert (given["client"], given["gpu"]) == (client.id, gpu_name(0))


def test_the_core_is_told_whose_clients_count_together_in_the_queue(start_daemon: StartDaemon, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    daemon = start_daemon("--journal-file", str(path))
    with daemon.client().register(run=bytes(range(16))), daemon.client().register():
        pass
    assert daemon.stop() == 0
    steps = [step for _, step in read(path.read_bytes().splitlines()) if isinstance(step, Step)]
    accounts = [step.event.account for step in steps if isinstance(step.event, ClientRegistered)]
    assert len(accounts) == 2
    assert accounts[0] == accounts[1] != ""
