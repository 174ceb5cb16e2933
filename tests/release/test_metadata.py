"""What a package index shows: the README without the files beside it."""

import re
import tomllib
from pathlib import Path

from hatch_metadata import published, urls

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPOSITORY = "https://code.example/nvshare"
_TARGET = re.compile(r"\]\(([^)]+)\)")


def test_without_a_repository_nothing_in_the_published_readme_points_to_a_file() -> None:
    text = published(README, "", "1.2.3")
    assert [target for target in _TARGET.findall(text) if "://" not in target] == []
    assert "![" not in text
    assert "*Picture: The live page.*" in text
    assert urls("", "1.2.3") == {}


def test_with_a_repository_every_link_and_picture_is_absolute_and_of_this_version() -> None:
    text = published(README, REPOSITORY, "1.2.3")
    before, after = _TARGET.findall(README), _TARGET.findall(text)
    assert len(before) == len(after)
    for path, address in zip(before, after, strict=True):
        assert re.fullmatch(rf"{REPOSITORY}/(raw|blob|tree)/v1\.2\.3/{re.escape(path)}", address), address
        kind = "tree" if (ROOT / path).is_dir() else "raw" if path.endswith(".png") else "blob"
        assert f"/{kind}/" in address
    assert f"![The live page]({REPOSITORY}/raw/v1.2.3/docs/pictures/page-light.png)" in text


def test_an_absolute_link_and_one_within_the_page_stay() -> None:
    text = "[a](https://x.example/) and [b](#install)"
    assert published(text, "", "1") == published(text, REPOSITORY, "1") == text


def test_the_address_of_the_repository_is_in_one_place() -> None:
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    assert set(PROJECT["project"]["dynamic"]) == {"readme", "urls"}
    assert not {"readme", "urls"} & set(PROJECT["project"])
    assert hook["repository"] == "" or hook["repository"].startswith("https://")
    assert set(urls(REPOSITORY, "1.2.3")) == {"Repository", "Issues", "Documentation", "Changelog"}
