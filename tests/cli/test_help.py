"""What the programs say of themselves: on an ordinary terminal nothing is cut off."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from nvshare import __version__, config
from nvshare.cli import nvshare
from nvshare.cli.ctl import kubectl_nvshare, nvsharectl
from nvshare.cli.simulate.command import simulate

GROUPS = {
    "nvshare": nvshare.cli,
    "nvshare simulate": simulate,
    "nvsharectl": nvsharectl.cli,
    "kubectl nvshare": kubectl_nvshare.cli,
}

COLUMNS = 80
CONTENT = COLUMNS - 2
"""The width that click uses on a terminal of this many columns."""


def tree(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command and all its sub-commands, each with what the user types."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from tree(f"{path} {name}", child)


def help_lines(path: str, command: click.Command) -> list[str]:
    return command.get_help(click.Context(command, info_name=path, terminal_width=CONTENT)).splitlines()


@pytest.mark.parametrize("name", ["nvshare", "nvsharectl", "kubectl nvshare"])
def test_the_help_of_every_command_fits_on_an_ordinary_terminal(name: str) -> None:
    lines = [(path, line) for path, command in tree(name, GROUPS[name]) for line in help_lines(path, command)]
    assert [(path, line) for path, line in lines if len(line) > COLUMNS] == []


def test_the_help_of_the_scheduler_fits_on_an_ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    assert [line for line in config.parser().format_help().splitlines() if len(line) > COLUMNS] == []


@pytest.mark.parametrize("name", ["nvshare", "nvsharectl", "kubectl nvshare"])
def test_every_option_has_a_help_text(name: str) -> None:
    options = [(path, one) for path, command in tree(name, GROUPS[name]) for one in command.params]
    assert [(path, one.opts) for path, one in options if isinstance(one, click.Option) and not one.help] == []


@pytest.mark.parametrize("name", GROUPS)
def test_every_command_is_listed_with_a_whole_line(name: str) -> None:
    done = CliRunner().invoke(GROUPS[name], ["--help"], terminal_width=CONTENT, prog_name=name)
    assert done.exit_code == 0
    _, _, listed = done.output.partition("Commands:\n")
    lines = dict(line.split(maxsplit=1) for line in listed.splitlines())
    assert set(lines) == set(GROUPS[name].list_commands(click.Context(GROUPS[name])))
    assert [text for text in lines.values() if text.endswith(("...", "e.g."))] == []


def test_the_device_plugin_tells_its_version() -> None:
    main = pytest.importorskip("nvshare.plugin.main", reason="the packages of the device plugin are not installed").main
    done = CliRunner().invoke(main, ["--version"])
    assert (done.exit_code, done.output) == (0, f"nvshare-device-plugin, version {__version__}\n")
