"""Every command of ours that a document prints exists, with its subcommand and its options; so does every make target.

tests/house/test_readme.py runs the blocks of README.md. The other documents print commands that need a GPU, root or a
cluster: these are checked here, word by word."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nvshare import config
from nvshare.cli import nvshare
from nvshare.cli.ctl import kubectl_nvshare, nvsharectl
from nvshare.dra.main import main as dra_driver
from nvshare.plugin.main import main as device_plugin

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
PROGRAMS: dict[str, click.Command] = {
    "nvshare": nvshare.cli,
    "nvsharectl": nvsharectl.cli,
    "kubectl nvshare": kubectl_nvshare.cli,
    "nvshare-device-plugin": device_plugin,
    "nvshare-dra-driver": dra_driver,
}
SCHEDULER = "nvshare-scheduler"
SCHEDULER_OPTIONS = set(config.parser()._option_string_actions)  # argparse has no public list
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

_CODE = re.compile(
    r"^```(?P<language>\w*)\n(?P<block>.*?)^```|^    (?P<line>\S[^\n]*)$|`(?P<span>[^`\n]+)`", re.DOTALL | re.MULTILINE
)
_NAMES = "|".join(map(re.escape, sorted([*PROGRAMS, SCHEDULER], key=len, reverse=True)))
_COMMAND = re.compile(
    rf"(?:^|\$\(|[|;&] |\b(?:until|exec|sudo) | -- )(?:\S*/)?({_NAMES})(?![\w./:-])((?: [^\n|;&>#)]*)?)"
)
_IS_COMMAND = re.compile(rf"(?:\S*/)?(?:{_NAMES}|docker|podman|eval|make)\b")
_MAKE = re.compile(r"^make ([a-z][a-z0-9-]*)(?: [A-Z]+=\S*)*(?=$| &&| #)")


def code(text: str) -> Iterator[str]:
    """What a page prints to be typed: blocks, indented lines, and spans that begin with a command."""
    for found in _CODE.finditer(text):
        if found["language"] in ("bash", "sh"):
            yield from found["block"].splitlines()
        elif found["line"]:
            yield found["line"]
        elif found["span"] and _IS_COMMAND.match(found["span"]):
            yield found["span"]


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of ours on a page: the program and its words."""
    for line in code(text):
        for found in _COMMAND.finditer(re.split(r"(?:^|\s)#", line)[0].strip()):
            yield found[1], _split(found[2])


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote was closed behind an operator
        return text.split()


def problems(program: str, words: list[str]) -> list[str]:
    """What the program does not know."""
    if program == SCHEDULER:
        return [word for word in words if word.startswith("--") and word.split("=")[0] not in SCHEDULER_OPTIONS]
    command, found = PROGRAMS[program], []
    known = _options(command)
    rest = iter(words)
    for word in rest:
        if word == "--":
            break
        name = word.split("=")[0]
        if name.startswith("-") and len(name) > 1:
            if name not in known:
                found.append(name)
            elif known[name] and "=" not in word:
                next(rest, None)
        elif isinstance(command, click.Group):
            child = command.get_command(click.Context(command), word)
            if child is None:
                return [*found, word]
            command, known = child, known | _options(child)
    return found


def _options(command: click.Command) -> dict[str, bool]:
    """Every option of a command, and whether a value follows it."""
    made = {"-h": False, "--help": False, "--version": False}
    for option in command.params:
        if isinstance(option, click.Option):
            made |= dict.fromkeys((*option.opts, *option.secondary_opts), not option.is_flag)
    return made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists(page: Path) -> None:
    wrong = [(name, words) for name, words in commands(page.read_text()) if problems(name, words)]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_of_a_page_exists(page: Path) -> None:
    named = {target for line in code(page.read_text()) for target in _MAKE.findall(line)}
    assert named - TARGETS == set()


def test_the_pages_for_users_have_many_commands() -> None:
    count = {name: len(list(commands((ROOT / name).read_text()))) for name in ("README.md", "docs/use.md")}
    assert count["README.md"] > 20
    assert count["docs/use.md"] > 50


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("    nvshare rnu -- x", ["rnu"]),
        ("`nvshare run --limt 4Gi -- python --flag`", ["--limt"]),
        ("```bash\n.venv/bin/nvsharectl status --colour > file --other\n```", ["--colour"]),
        ("`nvshare-scheduler --htp 1`", ["--htp"]),
        ("    docker run $(nvshare docker-args --limit 4Gi --gpu) IMAGE --it", ["--gpu"]),
        ("`nvsharectl report --since 7d --by user`", []),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, wrong: list[str]) -> None:
    assert [problem for name, words in commands(text) for problem in problems(name, words)] == wrong
