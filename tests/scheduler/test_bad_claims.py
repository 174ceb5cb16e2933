"""Files of claims that are damaged, or were not written by the DRA driver, cost a warning and nothing else."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nvshare import claim_file
from nvshare.claim_file import PreparedClaim
from nvshare.core.events import ClaimPrepared, Event
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.sources.claims import Claims

GIB = 1 << 30


def put(folder: Path, uid: str, **more: Any) -> None:
    fields = {"limits": {"g0": GIB}} | more
    claim = PreparedClaim(uid=uid, namespace="default", name=f"c-{uid}", devices=(), **fields)
    (folder / "claims" / claim_file.file_name(uid)).write_bytes(claim_file.encode(claim))


def prepared(uid: str, **more: Any) -> ClaimPrepared:
    return ClaimPrepared(**{"uid": uid, "label": f"default/c-{uid}", "limits": {"g0": GIB}} | more)


def posted(folder: Path) -> list[Event]:
    """What the core is told when the scheduler starts."""
    events: list[Event] = []
    claims = Claims(SimpleNamespace(post=events.append), folder)  # type: ignore[arg-type]
    claims.start()
    claims.close()
    return events


@pytest.mark.parametrize(
    "content",
    [b'{"x":' + b"[" * 200_000, b'{"uid": "\xff"}', b"null"],
    ids=["deep", "not UTF-8", "null"],
)
def test_a_file_that_cannot_be_decoded_keeps_no_other_claim_out(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)

    async def story() -> None:
        (tmp_path / "claims").mkdir()
        (tmp_path / "claims/a.json").write_bytes(content)
        put(tmp_path, "u-1")
        assert posted(tmp_path) == [prepared("u-1")]

    asyncio.run(story())
    assert len(said) == 1
    assert "a.json cannot be read" in said[0]


def test_a_fifo_is_no_claim_and_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)

    async def story() -> None:
        (tmp_path / "claims").mkdir()
        os.mkfifo(tmp_path / "claims/a.json")
        put(tmp_path, "u-1")
        assert posted(tmp_path) == [prepared("u-1")]

    asyncio.run(story())
    assert said == [f"{tmp_path}/claims/a.json cannot be read: it is not a regular file"]


@pytest.mark.parametrize(
    ("bad", "rest"),
    [
        ({"limits": {"g0": -1, "g1": GIB}}, {"limits": {"g1": GIB}}),
        ({"limits": {"g0": 1 << 64}}, {"limits": {}}),
        ({"weight": 0}, {}),
        ({"weight": 1 << 40}, {}),
        ({"priority": 1 << 40}, {}),
        ({"core_limits": {"g0": 0, "g1": 30}}, {"core_limits": {"g1": 30}}),
        ({"core_limits": {"g0": 101}}, {}),
    ],
    ids=str,
)
def test_a_figure_out_of_range_is_left_out_with_a_warning_and_the_rest_of_the_claim_counts(
    bad: dict[str, Any], rest: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)

    async def story() -> None:
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-0", **bad)
        assert posted(tmp_path) == [prepared("u-0", **rest)]

    asyncio.run(story())
    assert len(said) == 1
    assert said[0].startswith(f"{tmp_path}/claims/u-0.json")
    assert " is not from " in said[0]
