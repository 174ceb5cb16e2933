"""The files and commands in docs/guides.md are well-formed, name what there is, and do what the guide says."""

import json
import re
import shlex
import socket
import subprocess
from pathlib import Path

import yaml

from nvshare.cli.run.command import run
from nvshare.cli.run.docker_args import arguments
from nvshare.cli.run.environment import ProgramSettings
from nvshare.cli.run.native_files import LIBRARY_VARIABLE
from nvshare.config import DEFAULT_SOCKET

GUIDES = (Path(__file__).parents[2] / "docs" / "guides.md").read_text()


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", GUIDES, re.DOTALL | re.MULTILINE)
    return str(text)


def test_the_kernel_starts_python_with_options_that_there_are() -> None:
    kernel = json.loads(block("json"))
    assert kernel["argv"][-1] == "{connection_file}"
    words = shlex.split(kernel["argv"][2])
    known = {name for option in run.params for name in option.opts}
    assert {word for word in words[: words.index("--")] if word.startswith("--")} <= known


def test_compose_says_the_same_as_docker_args() -> None:
    (service,) = yaml.safe_load(block("yaml"))["services"].values()
    settings = ProgramSettings(name="train", limit_bytes=4 << 30)
    words = arguments(Path("/l/libnvshare.so"), Path(DEFAULT_SOCKET), settings, "all")
    variables = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    assert service["environment"] == variables | {"NVSHARE_GPU_MEMORY_LIMIT": "4Gi"}
    mounted = [re.search("target=([^,]+)", word) for word in words if word.startswith("type=bind")]
    assert [volume["target"] for volume in service["volumes"]] == [found[1] for found in mounted if found]
    assert all(volume["read_only"] for volume in service["volumes"])


def test_the_variable_of_compose_is_the_directory_of_the_library() -> None:
    (line,) = re.findall(r"^    (export NVSHARE_DIRECTORY=.*)$", GUIDES, re.MULTILINE)
    (service,) = yaml.safe_load(block("yaml"))["services"].values()
    name = service["volumes"][0]["source"].strip("${}")
    assert name != LIBRARY_VARIABLE, "docker-args reads this variable: it names the file"
    words = arguments(Path("/some/where/libnvshare.so"), Path(DEFAULT_SOCKET), ProgramSettings(), "all")
    script = f'nvshare() {{ echo "{" ".join(words)}"; }}\n{line}\necho "${name}"\n'
    done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "/some/where\n"


def test_the_prolog_of_slurm_gives_each_job_a_run_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.sock"
    prolog = block("sh").replace(DEFAULT_SOCKET, str(path))
    job = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "1234", "SLURM_JOB_NAME": "train"}

    def said() -> str:
        done = subprocess.run(["sh", "-c", prolog], env=job, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    assert said() == "", "a node without a scheduler runs jobs unshared"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        lines = dict(line.removeprefix("export ").split("=", 1) for line in said().splitlines())
    assert lines["NVSHARE_RUN_ID"] == "00001234" + 24 * "0"
    settings = ProgramSettings(name="train", limit_bytes=8 << 30)
    known = {*settings.variables(), "LD_PRELOAD", "NVSHARE_SOCKET", "NVSHARE_RUN_ID"}
    assert set(lines) == known
    assert (lines["NVSHARE_NAME"], lines["NVSHARE_SOCKET"]) == ("train", str(path))


def test_the_programs_in_the_guides_can_be_read() -> None:
    compile(block("python"), "guides.md", "exec")
    subprocess.run(["sh", "-n"], input=block("sh"), text=True, check=True, timeout=60)
