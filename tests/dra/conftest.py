from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    """A node's directories, with a short name: a socket's path may have no more than 107 characters."""
    with TemporaryDirectory(prefix="nvs") as folder:
        for name in ("sim", "run", "plugins", "registry", "operator"):
            (Path(folder) / name).mkdir()
        (Path(folder) / "libnvshare.so").write_bytes(b"\x7fELF the library")
        yield Path(folder)
