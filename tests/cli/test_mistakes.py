"""Mistakes of a user, and terminals of all kinds: what the commands say."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.cli.run import command
from support.daemon import Daemon, call_ctl, clean_environment

Front = Callable[..., subprocess.CompletedProcess[str]]


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(nvshare: Front) -> None:
    assert nvshare("rnu").stderr == "nvshare: No such command 'rnu'; did you mean 'run'?; see `nvshare --help`\n"
    _, _, err = call_ctl("satus")
    assert err == "nvsharectl: No such command 'satus'; did you mean 'status'?; see `nvsharectl --help`\n"


def test_a_wrong_value_is_answered_with_the_help_of_its_command() -> None:
    _, _, err = call_ctl("set-priority", "train", "50")
    assert err.endswith("50 is not in the range -10<=x<=10; see `nvsharectl set-priority --help`\n")


@pytest.mark.parametrize(("size", "hint"), [("8", "; did you mean 8Gi?"), ("1Ki", ""), ("1e3", ""), ("1.5", "")])
def test_only_a_number_without_a_suffix_is_taken_for_gibibytes(nvshare: Front, size: str, hint: str) -> None:
    done = nvshare("run", "--sim-memory", size, "--", "true")
    assert done.returncode == 2
    assert done.stderr.endswith(f"less than the minimum of 1Mi{hint}; see `nvshare run --help`\n")


def test_a_simulated_gpu_is_used_with_a_scheduler_that_answers_and_a_number_that_it_has(nvshare: Front) -> None:
    done = nvshare("run", "--sim-gpus", "1", "--socket", "/nowhere/s", "--", "true")
    assert (done.returncode, "no scheduler listens at /nowhere/s" in done.stderr) == (125, True)
    done = nvshare("run", "--sim-gpus", "2", "--gpu", "0,7", "--", "true")
    assert (done.returncode, "no GPU 7: there are GPUs 0 to 1 (--sim-gpus)" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("limit", "x", "-5"), "'-5' is negative; see `nvsharectl limit --help`"),
        (("set-quantum", "abc"), "'abc' is not a whole number of seconds from 1 to 86400; see `nvsharectl set"),
        (("set-quantum", "1.5"), "'1.5' is not a whole number of seconds from 1 to 86400"),
        (
            ("pause", "--gpu", "0", "x"),
            "give either a CLIENT or POD, or --gpu, not both; see `nvsharectl pause --help`",
        ),
        (("pause",), "give a CLIENT or POD, or --gpu; see `nvsharectl pause --help`"),
        (("--socket", "/etc/passwd", "status"), "/etc/passwd is not a socket; name that of a scheduler's operator"),
    ],
)
def test_a_mistake_is_answered_in_its_own_words(words: tuple[str, ...], said: str) -> None:
    assert said in call_ctl(*words)[2]


def test_a_limit_in_the_environment_that_cannot_be_read_is_wrong_usage(nvshare: Front) -> None:
    done = nvshare("run", "--", "true", NVSHARE_GPU_MEMORY_LIMIT="8GB")
    assert done.returncode == 2
    assert done.stderr == (
        "nvshare: run: NVSHARE_GPU_MEMORY_LIMIT is '8GB': it has an unknown suffix 'GB'; was Gi meant?\n"
    )


def test_a_core_limit_that_is_no_percentage_is_wrong_usage(nvshare: Front) -> None:
    reason = "is not a whole number of percent from 1 to 100"
    by_variable = nvshare("run", "--", "true", NVSHARE_GPU_CORE_LIMIT="130")
    assert (by_variable.returncode, by_variable.stderr) == (
        2,
        f"nvshare: run: NVSHARE_GPU_CORE_LIMIT is '130': it {reason}\n",
    )
    by_option = nvshare("run", "--core-limit", "0", "--", "true")
    assert (by_option.returncode, by_option.stderr) == (
        2,
        f"nvshare: Invalid value for '--core-limit': '0' {reason}; see `nvshare run --help`\n",
    )


def test_without_a_gpu_the_simulated_one_is_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "GPU_FILES", (str(tmp_path / "nvidiactl"),))
    command.warn_without_gpu({"NVSHARE_SIM_DIR": "/x"})
    assert capsys.readouterr().err == ""
    command.warn_without_gpu({})
    assert "nvshare run --sim-gpus 1" in capsys.readouterr().err
    (tmp_path / "nvidiactl").touch()
    command.warn_without_gpu({})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("module", "program"), [("plugin", "nvshare-device-plugin"), ("dra", "nvshare-dra-driver")])
def test_a_program_for_kubernetes_without_its_libraries_names_the_extra(module: str, program: str) -> None:
    script = f"import sys; sys.modules['grpc'] = None; from nvshare.{module}.entry import main; main()"
    words = [sys.executable, "-c", script, "--help"]
    done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{program}: grpc is not installed; run pip install 'nvshare[kubernetes]'\n"


def test_doctor_looks_at_the_scheduler_that_the_environment_names(nvshare: Front, daemon: Daemon) -> None:
    done = nvshare("doctor", "--json", NVSHARE_SOCKET=daemon.socket, NVSHARE_OPERATOR_SOCKET=daemon.operator_socket)
    answer = json.loads(done.stdout)
    texts = [finding["text"] for finding in answer["findings"]]
    assert f"a scheduler listens at {daemon.socket}" in texts
    assert any(text.startswith("the scheduler is nvshare ") for text in texts)
    assert answer["failed"] == sum(finding["level"] == "fail" for finding in answer["findings"])


def test_top_in_a_locale_without_the_characters_of_a_name(daemon: Daemon) -> None:
    with daemon.client().register(name="x-漢".encode()):
        done = daemon.run_ctl("top", "-n", "1", "--plain", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "x-?" in done.stdout


def test_top_on_a_terminal_that_cannot_move_the_cursor_prints_lines(daemon: Daemon) -> None:
    words = [sys.executable, "-m", "nvshare.cli.ctl.nvsharectl", "--socket", daemon.operator_socket, "top", "-n", "1"]
    with daemon.client().register(name=b"trainer"):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(words, stdin=theirs, stdout=theirs, env=clean_environment(TERM="dumb"))
        os.close(theirs)
        shown = b""
        while not shown.endswith(b"\r\n"):
            shown += os.read(ours, 4096)
        assert process.wait(60) == 0
        os.close(ours)
    assert b"trainer" in shown
    assert b"\x1b" not in shown


def test_a_name_and_a_directory_that_are_not_utf8_are_used_as_they_are(nvshare: Front, tmp_path: Path) -> None:
    place = tmp_path / "\udcff"
    place.mkdir(mode=0o700)
    shows = 'printf %s "$NVSHARE_NAME" | od -An -tx1'
    words = ("run", "--sim-gpus", "1", "--name", "a\udcff", "--", "sh", "-c", shows)
    result = nvshare(*words, XDG_RUNTIME_DIR=str(place))
    assert (result.returncode, result.stdout.split(), result.stderr) == (0, ["61", "ff"], "")
