"""ARCHITECTURE.md names files that exist, and leaves out no package."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "nvshare"
LIBRARY = ROOT / "native" / "libnvshare"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
BASES = (
    ROOT, SOURCE, SOURCE / "schedsim", SOURCE / "scheduler" / "http", ROOT / "native",
    ROOT / "native" / "libnvshare", ROOT / "native" / "simgpu",
)  # fmt: skip
"""What a path on the page may be relative to: the folder that its row is about."""
NOT_PATHS = {"namespace/name", "nvshare.com/gpu", "decisions/NNNN-title.md"}
PATHS = set(re.findall(r"`([\w.-]+(?:/[\w.-]*)+|\w+\.py)`", PAGE))


@pytest.mark.parametrize("name", sorted(PATHS - NOT_PATHS))
def test_a_path_leads_to_a_file_or_folder(name: str) -> None:
    found = [base / name for base in BASES]
    assert any(path.exists() or path.with_suffix(".py").exists() or path.with_suffix(".c").exists() for path in found)


def packages() -> list[Path]:
    """Packages and modules of the first level, and the packages of the programs that have some."""
    top = [path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    inner = [
        path.parent for path in SOURCE.glob("[cs]*/*/__init__.py") if path.parts[-3] in ("cli", "core", "scheduler")
    ]
    return sorted(path for path in (*top, *inner) if path.name != "__init__.py")


@pytest.mark.parametrize("path", packages(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_each_package_is_in_the_tree(path: Path) -> None:
    name = str(path.relative_to(SOURCE)) + ("/" if path.is_dir() else "")
    assert re.search(rf"^\| `(src/nvshare/)?{re.escape(name)}` \|", PAGE, re.MULTILINE), name


def modules() -> list[Path]:
    """The modules of all packages, and the C files and headers of the library's folders."""
    found = [path for path in SOURCE.glob("*/**/*.py") if not {"api", "_native", "page"} & set(path.parts)]
    found += [path for suffix in "ch" for path in LIBRARY.glob(f"*/*.{suffix}")]
    assert len(found) > 200
    return sorted(path for path in found if path.name != "__init__.py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_module_is_named_in_the_row_of_its_package(path: Path) -> None:
    package = path.parent.relative_to(SOURCE if path.suffix == ".py" else LIBRARY.parent)
    if package.name == "acceptance":
        package = package.parent  # Its kit is in the row of `doctor`.
    [row] = re.findall(rf"^\| `(?:src/nvshare/)?{package}/` \|.*", PAGE, re.MULTILINE)
    assert f"`{path.stem}`" in row


def test_the_words_of_the_glossary_are_in_order_and_each_is_there_once() -> None:
    glossary = PAGE[PAGE.index("## Words") : PAGE.index("## Where to look")]
    words = re.findall(r"^\| ([\w ]+) \|", glossary, re.MULTILINE)[1:]
    assert words == sorted(set(words))
    assert len(words) > 40
