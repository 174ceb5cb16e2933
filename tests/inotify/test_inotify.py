"""Being told of changes in a directory."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.inotify import Inotify


def remove_directory(path: Path) -> None:
    (path / "old").unlink()
    path.rmdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file comes": lambda path: (path / "new").touch(),
    "a file goes": lambda path: (path / "old").unlink(),
    "a file is moved in": lambda path: (path.parent / "outside").rename(path / "inside"),
    "the directory goes": remove_directory,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_is_told(tmp_path: Path, change: Callable[[Path], object]) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    (watched / "old").touch()
    (tmp_path / "outside").touch()

    async def story() -> None:
        told = asyncio.Event()
        inotify = Inotify(told.set)
        inotify.watch(watched)
        change(watched)
        async with asyncio.timeout(60):
            await told.wait()
        inotify.close()

    asyncio.run(story())


def test_a_directory_that_is_not_there_is_the_callers_to_handle(tmp_path: Path) -> None:
    async def story() -> None:
        inotify = Inotify(lambda: None)
        with pytest.raises(FileNotFoundError):
            inotify.watch(tmp_path / "nowhere")
        inotify.close()

    asyncio.run(story())
