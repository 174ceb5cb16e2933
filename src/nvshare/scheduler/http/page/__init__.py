"""The files of the live page, served as they are. The page loads nothing from other servers. What does not belong here:
the figures that it shows (`http.live_feed`)."""

import functools
from collections.abc import Callable, Iterable
from importlib.resources import files

ASSETS = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/card.js": ("card.js", "text/javascript; charset=utf-8"),
    "/dom.js": ("dom.js", "text/javascript; charset=utf-8"),
    "/memory_bar.js": ("memory_bar.js", "text/javascript; charset=utf-8"),
    "/overview.js": ("overview.js", "text/javascript; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/model.js": ("model.js", "text/javascript; charset=utf-8"),
    "/lanes.js": ("lanes.js", "text/javascript; charset=utf-8"),
    "/words.js": ("words.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def assets() -> dict[str, Callable[[], tuple[str, Iterable[bytes]]]]:
    """The pages by path, read once."""
    folder = files(__name__)
    return {
        path: functools.partial(_page, kind, folder.joinpath(name).read_bytes())
        for path, (name, kind) in ASSETS.items()
    }


def _page(kind: str, content: bytes) -> tuple[str, Iterable[bytes]]:
    return kind, [content]
