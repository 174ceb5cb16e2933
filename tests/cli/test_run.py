"""`nvshare run`: the program gets its environment, its scheduler, its signals and its exit code."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.cli.run import private_scheduler
from support.daemon import Daemon
from support.waiting import wait_until

Front = Callable[..., subprocess.CompletedProcess[str]]
SOURCE = Path(__file__).resolve().parents[2] / "src"
SHOW = ("sh", "-c", "env")
RUN = (sys.executable, "-m", "nvshare.cli.nvshare", "run", "--private", "--")


def variables(result: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert result.returncode == 0, result.stderr
    return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)


def wait_until_gone(path: Path, seconds: float = 60) -> None:
    wait_until(lambda: not path.exists(), f"{path} is gone", seconds)


def test_a_program_gets_the_library_a_scheduler_and_its_terms(nvshare: Front, runtime: Path) -> None:
    given = variables(
        nvshare(
            *("run", "--private", "--limit", "4Gi", "--core-limit", "30%", "--priority", "3", "--weight", "200"),
            *("--name", "job", "--", *SHOW),
        )
    )
    assert given["LD_PRELOAD"].endswith("libnvshare.so")
    assert given["NVSHARE_SOCKET"] == str(runtime / "nvshare" / "clients" / "scheduler.sock")
    assert (given["NVSHARE_GPU_MEMORY_LIMIT"], given["NVSHARE_GPU_CORE_LIMIT"]) == (str(4 << 30), "30")
    assert (given["NVSHARE_PRIORITY"], given["NVSHARE_WEIGHT"], given["NVSHARE_NAME"]) == ("3", "200", "job")
    assert re.fullmatch("[0-9a-f]{32}", given["NVSHARE_RUN_ID"])


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (
            "priority",
            "nvshare: warning: the weight of 50 has no effect: weights count only with policy fair, and the policy is"
            " priority;",
        ),
        ("fair", ""),
    ],
)
def test_a_weight_that_the_scheduler_ignores_is_told(nvshare: Front, policy: str, said: str) -> None:
    given = nvshare("run", "--private", "--weight", "50", "--", "true", NVSHARE_POLICY=policy)
    lines = [line for line in given.stderr.splitlines() if "weight" in line]
    assert (given.returncode, [line.startswith(said) for line in lines]) == (0, [True] * bool(said))
    assert "weight" not in nvshare("run", "--private", "--", "true", NVSHARE_POLICY=policy).stderr


def test_a_weight_in_the_environment_counts_as_one_and_a_scheduler_that_does_not_answer_is_not_waited_for(
    nvshare: Front, tmp_path: Path
) -> None:
    with Daemon(tmp_path / "daemon") as daemon:
        command = ("run", "--socket", daemon.socket, "--", "true")
        given = nvshare(*command, NVSHARE_WEIGHT="7", NVSHARE_OPERATOR_SOCKET=daemon.operator_socket)
        assert (
            "the weight of 7 has no effect: weights count only with policy fair, and the policy is priority"
            in given.stderr
        )
        given = nvshare(*command, NVSHARE_WEIGHT="7", NVSHARE_OPERATOR_SOCKET=str(tmp_path / "nobody"))
        assert (given.returncode, "weight" in given.stderr) == (0, False)


def test_what_was_preloaded_before_stays_behind_the_library(nvshare: Front) -> None:
    given = variables(nvshare("run", "--private", "--", *SHOW, LD_PRELOAD="libm.so.6 libdl.so.2"))
    assert given["LD_PRELOAD"].split(":")[1:] == ["libm.so.6", "libdl.so.2"]


def test_two_runs_have_two_ids(nvshare: Front) -> None:
    ids = [variables(nvshare("run", "--private", "--", *SHOW))["NVSHARE_RUN_ID"] for _ in range(2)]
    assert ids[0] != ids[1]


def test_settings_of_the_simulated_node_decide_which_runs_share_it(nvshare: Front) -> None:
    """What a kernel touches is a setting of the node; its duration is one of the process."""
    on = [
        variables(nvshare("run", "--sim-gpus", "1", "--no-share", "--", *SHOW, **setting))["NVSHARE_SIM_DIR"]
        for setting in ({}, {"NVSHARE_SIM_KERNEL_US": "20"}, {"NVSHARE_SIM_TOUCH": "stream"})
    ]
    assert (on[0] == on[1], on[0] == on[2]) == (True, False)


def test_a_simulated_card_is_available_without_the_library(nvshare: Front) -> None:
    given = variables(nvshare("run", "--sim-gpus", "2", "--no-share", "--", *SHOW))
    assert "libnvshare" not in given.get("LD_PRELOAD", "")
    assert given["NVSHARE_SIM_GPUS"] == "2"
    assert "NVSHARE_RUN_ID" not in given
    refused = nvshare("run", "--no-share", "--", *SHOW)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_the_exit_code_is_the_programs(nvshare: Front) -> None:
    assert nvshare("run", "--private", "--", "sh", "-c", "exit 42").returncode == 42


def test_a_signal_reaches_the_program_and_its_death_is_seen(environment: dict[str, str]) -> None:
    command = [*RUN, "sh", "-c", "echo up; exec sleep 60"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


def test_options_after_the_command_are_the_commands(nvshare: Front) -> None:
    assert nvshare("run", "--private", "echo", "--limit", "x").stdout == "--limit x\n"


def wait_for_an_unused_schedulers_end(environment: dict[str, str], tmp_path: Path) -> None:
    """As long as a scheduler stays that nobody uses: such a one is started in a place of its own."""
    place = tmp_path / "elsewhere"
    place.mkdir(mode=0o700)
    subprocess.run([*RUN, "true"], env=environment | {"XDG_RUNTIME_DIR": str(place)}, check=True, timeout=60)
    wait_until_gone(place / "nvshare" / "clients" / "scheduler.sock")


def test_ten_programs_started_at_once_get_one_scheduler_that_ends_after_them(
    environment: dict[str, str], runtime: Path, tmp_path: Path
) -> None:
    command = [*RUN, "sh", "-c", "echo up; read line"]
    programs = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(10)
    ]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
    path = runtime / "nvshare" / "clients" / "scheduler.sock"
    made_ns = path.stat().st_ctime_ns
    wait_for_an_unused_schedulers_end(environment, tmp_path)
    assert path.stat().st_ctime_ns == made_ns
    for program in programs:
        program.communicate(b"\n", timeout=60)
    wait_until_gone(path)


def test_the_private_place_is_shut_to_other_users(nvshare: Front, runtime: Path) -> None:
    variables(nvshare("run", "--private", "--", *SHOW))
    assert stat.S_IMODE((runtime / "nvshare").stat().st_mode) == 0o700


def test_without_a_runtime_directory_tmp_is_used(nvshare: Front, tmp_path: Path) -> None:
    given = variables(nvshare("run", "--private", "--", *SHOW, XDG_RUNTIME_DIR="", TMPDIR=str(tmp_path)))
    assert given["NVSHARE_SOCKET"].startswith(str(tmp_path / f"nvshare-{os.getuid()}"))


def test_a_directory_that_others_can_write_is_not_trusted(nvshare: Front, runtime: Path) -> None:
    (runtime / "nvshare").mkdir()
    (runtime / "nvshare").chmod(0o777)
    result = nvshare("run", "--private", "--", "true")
    assert result.returncode == 125
    assert "not a private directory of this user" in result.stderr


BAD = {
    "no command": (("run",), 2, "no command given"),
    "no command after --": (("run", "--"), 2, "no command given"),
    "not found": (("run", "--private", "--", "no-such-program"), 127, "no-such-program: No such file or directory"),
    "not a program": (("run", "--private", "--", "/etc/passwd"), 126, "/etc/passwd: Permission denied"),
    "a directory": (("run", "--private", "--", "/etc"), 126, "/etc: Permission denied"),
    "a bad size": (("run", "--limit", "4GB", "--", "true"), 2, "'4GB' has an unknown suffix"),
    "a bad priority": (("run", "--priority", "99", "--", "true"), 2, "99 is not in the range"),
    "a long name": (("run", "--name", "n" * 60, "--", "true"), 2, "shorter than 48 bytes"),
    "no scheduler there": (("run", "--socket", "/nowhere/s", "--", "true"), 125, "no scheduler listens at /nowhere/s"),
    "two schedulers": (("run", "--private", "--socket", "/x", "--", "true"), 2, "either --socket or --private"),
    "no such command": (("walk",), 2, "No such command"),
    "escape sequences": (("run", "--private", "--", "\x1b]0;x\x07no"), 127, "No such file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_the_right_code(nvshare: Front, case: str) -> None:
    args, code, text = BAD[case]
    result = nvshare(*args)
    assert (result.returncode, result.stdout) == (code, "")
    (line,) = [line for line in result.stderr.splitlines() if "this machine has no NVIDIA GPU" not in line]
    assert text in line
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("path", ["/nowhere/libnvshare.so", "/usr/lib"], ids=["missing", "a directory"])
def test_a_library_that_is_no_file_is_named(nvshare: Front, path: str) -> None:
    result = nvshare("run", "--private", "--", "true", NVSHARE_LIBRARY=path)
    assert result.returncode == 125
    assert f"NVSHARE_LIBRARY names {path}, which is not a file" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not connect")
def test_a_scheduler_that_may_not_be_used_is_an_error_not_a_private_one(runtime: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(runtime / "s"))
        listening.listen()
        assert private_scheduler.is_answering(str(runtime / "s"))
        assert "this user has no permission to connect" in _said_as_nobody(
            lambda: private_scheduler.is_answering(str(runtime / "s"))
        )


def _said_as_nobody(call: Callable[[], object]) -> str:
    """What a call says when it is not root who makes it; in a child, because there is no way back."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setresuid(65534, 65534, 65534)
        try:
            call()
        except BaseException as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = lines.read()
    os.waitpid(child, 0)
    return said


def allocator(environment: dict[str, str], *options: str) -> "subprocess.Popen[str]":
    """The demonstration's program, run by `nvshare run` and waiting for commands."""
    program = str(SOURCE / "nvshare" / "_native" / "demo" / "allocator")
    command = [sys.executable, "-m", "nvshare.cli.nvshare", "run", *options, "--", program]
    started = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def test_two_runs_with_the_same_simulated_gpus_meet_on_them(environment: dict[str, str]) -> None:
    first = allocator(environment, "--sim-gpus", "1", "--name", "one")
    second = allocator(environment, "--sim-gpus", "1", "--name", "two", "--limit", "1Gi")
    other = allocator(environment, "--sim-gpus", "1", "--sim-memory", "8Gi")
    status = subprocess.run(
        [sys.executable, "-m", "nvshare.cli.ctl.nvsharectl", "--socket", _operator_socket(first), "status"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    answers = [program.communicate("uuid\nalloc 2Gi\n", timeout=60)[0].split() for program in (first, second, other)]
    assert " one " in status
    assert " two " in status
    assert answers[0][0] == answers[1][0] != answers[2][0]
    assert [answer[1] for answer in answers] == ["ok", "CUDA_ERROR_OUT_OF_MEMORY", "ok"]


def _operator_socket(program: "subprocess.Popen[str]") -> str:
    entries = Path(f"/proc/{program.pid}/environ").read_bytes().split(b"\0")
    socket_path = next(entry for entry in entries if entry.startswith(b"NVSHARE_SOCKET=")).decode().partition("=")[2]
    return str(Path(socket_path).parents[1] / "operator" / "control.sock")


def test_docker_gets_two_read_only_directories_and_the_terms(nvshare: Front, environment: dict[str, str]) -> None:
    script = (
        f'{sys.executable} -m nvshare.cli.nvshare docker-args --limit 1Gi --core-limit 25 --socket "$NVSHARE_SOCKET"'
    )
    words = nvshare("run", "--private", "--", "sh", "-c", script).stdout.split()
    mounts = [word for word in words if word.startswith("type=bind")]
    assert len(mounts) == 2
    assert all(mount.endswith(",readonly") for mount in mounts)
    assert {"LD_PRELOAD=/usr/lib/nvshare/libnvshare.so", "NVSHARE_GPU_MEMORY_LIMIT=1073741824"} <= set(words)
    assert "NVSHARE_GPU_CORE_LIMIT=25" in words
    assert "NVSHARE_SOCKET=/var/run/nvshare/scheduler.sock" in words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_script_for_each_shell(nvshare: Front, shell: str) -> None:
    assert "_NVSHARE_COMPLETE" in nvshare("completion", shell).stdout


def test_docker_args_without_a_scheduler_says_what_to_start(nvshare: Front) -> None:
    result = nvshare("docker-args", "--socket", "/nowhere/s")
    assert result.returncode == 1
    assert "start nvshare-scheduler" in result.stderr


def test_a_program_runs_on_the_gpu_that_is_named(nvshare: Front) -> None:
    done = nvshare("run", "--sim-gpus", "2", "--gpu", "1", "--", "printenv", "CUDA_VISIBLE_DEVICES")
    assert done.stdout == "1\n", done.stderr
