"""What the programs say of themselves: on an ordinary terminal nothing is cut off."""

import click
import pytest
from click.testing import CliRunner

from nvshare import __version__
from nvshare.cli import nvshare
from nvshare.cli.ctl import kubectl_nvshare, nvsharectl
from nvshare.cli.simulate.command import simulate

GROUPS = {
    "nvshare": nvshare.cli,
    "nvshare simulate": simulate,
    "nvsharectl": nvsharectl.cli,
    "kubectl nvshare": kubectl_nvshare.cli,
}


@pytest.mark.parametrize("name", GROUPS)
def test_every_command_is_listed_with_a_whole_line(name: str) -> None:
    done = CliRunner().invoke(GROUPS[name], ["--help"], terminal_width=80, prog_name=name)
    assert done.exit_code == 0
    _, _, listed = done.output.partition("Commands:\n")
    lines = dict(line.split(maxsplit=1) for line in listed.splitlines())
    assert set(lines) == set(GROUPS[name].list_commands(click.Context(GROUPS[name])))
    assert [text for text in lines.values() if text.endswith(("...", "e.g."))] == []


def test_the_device_plugin_tells_its_version() -> None:
    main = pytest.importorskip("nvshare.plugin.main", reason="the packages of the device plugin are not installed").main
    done = CliRunner().invoke(main, ["--version"])
    assert (done.exit_code, done.output) == (0, f"nvshare-device-plugin, version {__version__}\n")
