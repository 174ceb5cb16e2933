"""The man pages say what `--help` says."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import man_pages
from nvshare.config import OPTIONS

ROOT = Path(__file__).parents[2]
PAGES = man_pages.pages()


def plain(text: str) -> str:
    """Without the escapes of troff."""
    return text.replace(r"\-", "-").replace(r"\e", "\\").replace(r"\&", "")


def test_every_program_has_a_page() -> None:
    programs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {Path(name).stem for name in PAGES} == set(programs)


def test_a_page_has_the_usage_of_every_command_and_its_options() -> None:
    page = plain(PAGES["man1/nvshare.1"])
    assert ".SS nvshare run [OPTIONS] -- CMD [ARG]..." in page.splitlines()
    assert ".SS nvshare simulate mixes [OPTIONS]" in page.splitlines()
    assert "\n\\fB--limit SIZE\\fR\nMemory limit on each GPU" in page
    assert "\n.nf\n    nvshare run -- python train.py\n" in page, "examples keep their lines"


def test_the_page_of_the_scheduler_has_every_setting_with_its_default() -> None:
    page = plain(PAGES["man8/nvshare-scheduler.8"])
    for option in OPTIONS:
        assert f"\n\\fB{option.flag}\\fR {option.metavar}\n" in page
        assert f"(default: {option.default or 'none'})" in page


def test_no_text_begins_a_request_of_troff_by_chance() -> None:
    assert man_pages._roff(".profile\n'quoted'\na-b\\c") == "\\&.profile\n\\&'quoted'\na\\-b\\ec"


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_man_formats_a_page_without_a_warning(name: str, tmp_path: Path) -> None:
    path = tmp_path / Path(name).name
    path.write_text(PAGES[name])
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", str(path)],
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert "SYNOPSIS" in done.stdout
