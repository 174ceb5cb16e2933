"""Worlds run the client machine that ships: they notice when its C is changed for the worse."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[2] / "native" / "libnvshare"


BrokenMachine = Callable[..., str]

PLAY = """
import sys
from pathlib import Path
import nvshare.native_directory
nvshare.native_directory.NATIVE = Path(sys.argv[1])
from nvshare.schedsim.worlds import faults
if "patient" in sys.argv:  # only worlds that are slow and whose scheduler never hangs
    del faults.FAULTS[faults._hang_daemon]
for seed in range(0 if len(sys.argv) == 3 else 200, 200):
    if "patient" not in sys.argv or faults.World(seed).pace == 100:
        faults.play(seed, 500)
exec("".join(sys.argv[3:]))
"""
LATE_ANSWER = """
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.world import GPUS, World
SECOND = 10**9
world = World(0)
for process in list(world.processes.values()):
    world.kill(process)
world.chance.is_calm = True
process = world.processes[99] = Process(99, "run/a", 0, [GPUS[0]], world)
process.do(process.wake)
world.play(until=world.now + SECOND)
world.daemon.kill()
world.daemon.start()
world.daemon.hang()
world.play(until=world.now + SECOND)
process.do(lambda: process.work(GPUS[0]))
world.play(until=world.now + 6 * SECOND)
assert process.uses[GPUS[0]].is_open
world.calm_down()
"""
"""A registration is answered only after a thread has stopped waiting for that."""


@pytest.fixture
def broken_machine(tmp_path: Path) -> BrokenMachine:
    """Worlds with a client machine in which something is replaced, or one story; what they find."""

    def play_broken(file: str, *changes: tuple[str, str], worlds: str = "all", story: str = "") -> str:
        sources = tmp_path / "libnvshare"
        shutil.copytree(LIBRARY / "client", sources / "client")
        shutil.copy(LIBRARY / "wire.h", sources)
        text = (sources / "client" / file).read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (sources / "client" / file).write_text(text)
        parts = sorted((sources / "client").glob("*.c"))
        built = tmp_path / "libnvshare_client.so"
        words: list[str | Path] = ["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-I", sources, "-o", built, *parts]
        subprocess.run(words, check=True)
        play = [sys.executable, "-c", PLAY, str(tmp_path), worlds, *([story] if story else [])]
        done = subprocess.run(play, capture_output=True, text=True, timeout=300)
        assert done.returncode, "nothing was found"
        return done.stderr

    return play_broken


def test_a_machine_that_keeps_what_it_never_claimed_is_found_out(broken_machine: BrokenMachine) -> None:
    """As libnvshare's once did. Worlds rarely come to this situation."""
    found = broken_machine("turn.c", ("first && !turn->claimed_nothing ?", "first ?"), story=LATE_ANSWER)
    assert "UNSHARED" in found


def test_the_machine_as_it_is_keeps_nothing_that_it_never_claimed(broken_machine: BrokenMachine) -> None:
    with pytest.raises(AssertionError, match="nothing was found"):
        broken_machine("turn.c", story=LATE_ANSWER)


def test_a_machine_that_takes_silence_for_death_is_found_out(broken_machine: BrokenMachine) -> None:
    """As libnvshare once did after eleven minutes: a client that waited longer lost its place."""
    no_verdict = ("return !client->pinged_ns ?", "return client ?")
    silence = (
        "nvs_frames_bare(client, NVS_PING, 0);",
        """if (client->gpus[0].turn.state == NVS_TURN_WAITING && now_ns - client->quiet_since_ns >= 660000000000) {
            nvs_client_lost(client, now_ns);
            client->out.todo |= NVS_CLIENT_DISCONNECT;
            return;
        }""",
    )
    assert "lost its place" in broken_machine("keepalive.c", no_verdict, silence, worlds="patient")


def test_a_machine_that_waits_for_a_hung_scheduler_is_found_out(broken_machine: BrokenMachine) -> None:
    found = broken_machine("keepalive.c", ("return !client->pinged_ns ?", "return client ?"))
    assert "a scheduler that hangs" in found


def test_a_machine_that_waits_for_a_scheduler_that_is_away_is_found_out(broken_machine: BrokenMachine) -> None:
    found = broken_machine(
        "connection.c", ("client->lost_ns + client->config.orphan_ns", "client->lost_ns + 9 * client->config.orphan_ns")
    )
    assert "although there is no scheduler" in found


def test_a_machine_that_does_not_report_its_work_is_found_out(broken_machine: BrokenMachine) -> None:
    found = broken_machine("looks.c", ("add(&looks->report, busy);", "add(&looks->report, false);"))
    assert "and reported" in found


def test_a_machine_that_rests_although_it_works_again_is_found_out(broken_machine: BrokenMachine) -> None:
    found = broken_machine("looker.c", ("looker->is_resting = looker->is_resting && facts->is_idle;", ""))
    assert "and reported" in found


def test_a_machine_that_does_not_say_that_it_rests_is_found_out(broken_machine: BrokenMachine) -> None:
    """Then the time in which it holds a lock counts."""
    found = broken_machine("looker.c", ("    tell(client, gpu, facts, &no_work);\n", ""))
    assert "although it rests" in found
