"""The files of prepared claims: atomic, read back by the next driver, nothing left behind."""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from nvshare import claim_file
from nvshare.claim_file import PreparedClaim, PreparedDevice
from nvshare.dra import cdi
from nvshare.dra.prepared_claims import PreparedClaims


def claim(uid: str = "u-1", **consumed: int) -> PreparedClaim:
    devices = tuple(
        PreparedDevice(request="gpu", pool="node", device=gpu, gpu=gpu, consumed_bytes=size)
        for gpu, size in consumed.items()
    )
    return PreparedClaim(uid=uid, namespace="team", name="c", devices=devices, limits={"GPU-a": 5})


def store(folder: Path, options: cdi.CdiOptions | None = None) -> PreparedClaims:
    made = PreparedClaims(folder / "claims", folder / "cdi", options or cdi.CdiOptions())
    made.load()
    return made


def files(folder: Path) -> set[str]:
    return {path.name for part in ("claims", "cdi") for path in (folder / part).iterdir()}


def test_a_claim_is_two_files_and_removing_it_leaves_none(tmp_path: Path) -> None:
    claims = store(tmp_path)
    for _ in range(2):
        claims.add(claim())
        assert files(tmp_path) == {"u-1.json", "nvshare.com-claim_u-1.json"}
    assert claim_file.decode((tmp_path / "claims/u-1.json").read_bytes()) == claim()
    for _ in range(2):
        claims.remove("u-1")
        assert files(tmp_path) == set()
        assert claims.all() == {}


def test_pods_cannot_read_the_limits(tmp_path: Path) -> None:
    store(tmp_path).add(claim())
    assert (tmp_path / "claims").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "claims/u-1.json").stat().st_mode & 0o777 == 0o600


def test_the_next_driver_knows_what_is_prepared_and_writes_the_cdi_file_with_its_own_settings(tmp_path: Path) -> None:
    store(tmp_path).add(claim())
    again = store(tmp_path, cdi.CdiOptions(host_run_dir="/run/moved"))
    assert again.all() == {"u-1": claim()}
    assert "/run/moved" in (tmp_path / "cdi/nvshare.com-claim_u-1.json").read_text()


def test_what_a_driver_left_half_done_is_removed(tmp_path: Path) -> None:
    store(tmp_path).add(claim())
    for name in ("claims/u-2.json.new", "cdi/nvshare.com-claim_u-2.json.new", "cdi/nvshare.com-claim_u-3.json"):
        (tmp_path / name).write_text("half")
    (tmp_path / "claims/u-4.json").write_text('{"uid": ')
    (tmp_path / "claims/u-5.json").write_bytes(claim_file.encode(claim("u-6")))
    (tmp_path / "cdi/nvidia.json").write_text(json.dumps({"kind": "nvidia.com/gpu"}))
    assert store(tmp_path).all() == {"u-1": claim()}
    assert files(tmp_path) == {"u-1.json", "nvshare.com-claim_u-1.json", "nvidia.json"}


def test_a_claim_that_cannot_be_written_is_not_half_prepared(tmp_path: Path) -> None:
    claims = store(tmp_path)
    (tmp_path / "cdi/nvshare.com-claim_u-1.json.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        claims.add(claim())
    assert claims.all() == {}
    assert list((tmp_path / "claims").iterdir()) == []


def test_a_claim_that_another_instance_prepares_while_the_files_are_read_keeps_both(tmp_path: Path) -> None:
    old, new = store(tmp_path), PreparedClaims(tmp_path / "claims", tmp_path / "cdi", cdi.CdiOptions())
    listing = Path.iterdir

    def listing_while_one_is_prepared(path: Path) -> Iterator[Path]:
        found = list(listing(path))
        old.add(claim())
        return iter(found)

    with patch.object(Path, "iterdir", listing_while_one_is_prepared):
        new.load()
    assert files(tmp_path) == {"u-1.json", "nvshare.com-claim_u-1.json"}


def test_a_claim_that_another_instance_removes_while_the_files_are_read_is_not_prepared(tmp_path: Path) -> None:
    old, new = store(tmp_path), PreparedClaims(tmp_path / "claims", tmp_path / "cdi", cdi.CdiOptions())
    old.add(claim())
    reading = Path.read_bytes

    def reading_while_one_is_removed(path: Path) -> bytes:
        old.remove("u-1")
        return reading(path)

    with patch.object(Path, "read_bytes", reading_while_one_is_removed):
        new.load()
    assert files(tmp_path) == set()


def test_the_load_of_a_gpu_is_what_its_claims_consume_and_not_their_lower_limits(tmp_path: Path) -> None:
    claims = store(tmp_path)
    claims.add(claim("u-1", a=5, b=1))
    claims.add(claim("u-2", a=2))
    another = store(tmp_path)
    assert claims.consumed_bytes() == another.consumed_bytes() == {"a": 7, "b": 1}
    another.remove("u-1")
    assert claims.consumed_bytes() == {"a": 2}
