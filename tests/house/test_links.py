"""Links in the documents lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(page: Path) -> None:
    broken = [target for target in _LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert broken == []


def test_no_page_speaks_of_machines_of_its_authors() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    words = re.compile(r"/work/|\.\./shared|/root/|\bsubagent\b")
    texts = [
        ROOT / name
        for name in tracked.split("\0")
        if name.endswith((".md", ".py", ".c", ".h", ".sh", ".yaml", ".toml"))
    ]
    assert [
        str(p.relative_to(ROOT)) for p in texts if p != Path(__file__) and p.exists() and words.search(p.read_text())
    ] == []
