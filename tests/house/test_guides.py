"""The files in docs/guides.md are well-formed and name what there is."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import yaml

from nvshare.cli.run.command import run
from nvshare.cli.run.docker_args import arguments
from nvshare.cli.run.environment import ProgramSettings
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


def test_the_programs_in_the_guides_can_be_read() -> None:
    compile(block("python"), "guides.md", "exec")
    subprocess.run(["sh", "-n"], input=block("sh"), text=True, check=True, timeout=60)
