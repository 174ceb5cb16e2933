"""The parts of the package's metadata that depend on where the project is published: its addresses, and the README.

A package index shows the README without the files beside it. With `repository` in pyproject.toml links and pictures
become absolute. Without it a picture becomes its description and a link becomes plain text: no link is broken."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#|mailto:)(?P<path>[^)\s]+)\)")


class PublishedMetadata(MetadataHookInterface):
    """Fills in `readme` and `urls`. Setting: `repository`, the address of the repository; empty: there is none yet."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        repository = str(self.config.get("repository", "")).rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        version = str(metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": published(text, repository, version)}
        metadata["urls"] = urls(repository, version)


def published(text: str, repository: str, version: str) -> str:
    """The README as it can be read without the files beside it."""

    def replaced(link: re.Match[str]) -> str:
        picture, words, path = link["picture"], link["text"], link["path"]
        if not repository:
            return f"*Picture: {words}.*" if picture else words
        kind = "raw" if picture else "tree" if path.endswith("/") else "blob"
        return f"{picture}[{words}]({repository}/{kind}/v{version}/{path})"

    return _LINK.sub(replaced, text)


def urls(repository: str, version: str) -> dict[str, str]:
    if not repository:
        return {}
    pages = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md"}
    fixed = {"Repository": repository, "Issues": f"{repository}/issues"}
    return fixed | {name: f"{repository}/blob/v{version}/{path}" for name, path in pages.items()}
