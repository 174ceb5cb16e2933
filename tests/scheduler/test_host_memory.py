"""What the host can take of clients' GPU memory, by their cgroups and the node."""

from pathlib import Path

import pytest

from nvshare.core.model import GIB, MIB, UNLIMITED
from nvshare.scheduler.sources.cgroup_memory import MARGIN, Cgroup, available_memory, levels, memory_cgroup, own_parts
from nvshare.scheduler.sources.host_memory import Shortfall, measure, share_of
from support.cgroup_files import write_v2

POD = "/kubepods/pod1/c1"


def write_v1(directory: Path, *, limit: int, usage: int, kernel: int, cache: int) -> None:
    directory.mkdir(parents=True)
    (directory / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (directory / "memory.usage_in_bytes").write_text(f"{usage}\n")
    (directory / "memory.kmem.usage_in_bytes").write_text(f"{kernel}\n")
    (directory / "memory.stat").write_text(f"cache 5\ntotal_inactive_file {cache}\n")


def nowhere(base: Path) -> list[str]:
    raise AssertionError("the path is that of the host")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0::/a/b\n", (True, "/a/b")),
        ("12:memory:/x\n3:cpu,cpuacct:/y\n0::/z\n", (False, "/x")),
        ("0::/z\n4:pids,memory:/x\n", (False, "/x")),
        ("3:cpu:/y\n", None),
        ("", None),
        ("nonsense", None),
        ("0::/with:colon\n", (True, "/with:colon")),
    ],
)
def test_the_cgroup_that_counts_memory(text: str, found: tuple[bool, str] | None) -> None:
    assert memory_cgroup(text) == found


def test_every_level_of_v2_with_what_can_be_read(tmp_path: Path) -> None:
    write_v2(tmp_path / "kubepods", limit=None, current=9 * GIB)
    write_v2(tmp_path / "kubepods/pod1/c1", limit=4 * GIB, current=3 * GIB, kernel=GIB, cache=512 * MIB)
    assert levels(tmp_path, f"0::{POD}\n", nowhere) == [
        Cgroup(str(tmp_path / "kubepods/pod1/c1"), 4 * GIB, 3 * GIB - 512 * MIB, GIB),
        Cgroup(str(tmp_path / "kubepods"), None, 9 * GIB, 0),
    ]


def test_v1_and_its_number_for_no_limit(tmp_path: Path) -> None:
    write_v1(tmp_path / "memory/docker/c", limit=2 * GIB, usage=GIB, kernel=MIB, cache=3 * MIB)
    write_v1(tmp_path / "memory/docker2/c", limit=9223372036854771712, usage=GIB, kernel=0, cache=0)
    (found,) = levels(tmp_path, "5:memory:/docker/c\n", nowhere)
    assert (found.limit, found.usage, found.kernel) == (2 * GIB, GIB - 3 * MIB, MIB)
    (found,) = levels(tmp_path, "5:memory:/docker2/c\n", nowhere)
    assert (found.limit, found.room) == (None, None)


@pytest.mark.parametrize(
    ("current", "stat", "kernel", "is_estimated"),
    [
        (3000, {"anon": 300, "file": 200, "kernel": 2400, "sock": 7, "inactive_file": 150}, 2400, False),
        (3000, {"anon": 300, "file": 200, "sock": 7, "slab": 90, "inactive_file": 150}, 2493, True),
        (400, {"anon": 300, "file": 200, "sock": 7, "slab": 90, "inactive_file": 150}, 0, True),
        (3000, {"anon": 300, "file": 200, "inactive_file": 150}, 0, True),
        (3000, {"inactive_file": 150}, 0, True),
    ],
    ids=["5.18", "5.15", "figures of different moments", "without sockets", "without anything"],
)
def test_kernel_memory_is_what_no_other_figure_has_if_it_is_not_shown(
    tmp_path: Path, current: int, stat: dict[str, int], kernel: int, is_estimated: bool
) -> None:
    write_v2(tmp_path / "a", limit=4000 * MIB, current=current * MIB)
    (tmp_path / "a/memory.stat").write_text("".join(f"{name} {value * MIB}\n" for name, value in stat.items()))
    (found,) = levels(tmp_path, "0::/a\n", nowhere)
    assert (found.kernel, found.is_estimated) == (kernel * MIB, is_estimated)
    assert found.room == (4000 - (current - 150) + kernel) * MIB - MARGIN


def test_a_cgroup_without_the_figure_of_its_cache_gives_none(tmp_path: Path) -> None:
    write_v2(tmp_path / "a", limit=GIB, current=0)
    (tmp_path / "a/memory.stat").write_text("kernel 0\n")
    assert levels(tmp_path, "0::/a\n", nowhere) == []


def test_a_path_seen_from_a_cgroup_namespace_is_found_by_our_own_place(tmp_path: Path) -> None:
    write_v2(tmp_path / "kubepods/pod1/c1", limit=GIB, current=0)
    own = tmp_path / "kubepods/pod9/scheduler"
    own.mkdir(parents=True)
    (own / "cgroup.procs").write_text("1\n77\n")
    (tmp_path / "kubepods/cgroup.procs").write_text("5\n")
    (found,) = levels(tmp_path, "0::/../../pod1/c1\n", lambda base: own_parts(base, 77))
    assert found.limit == GIB
    assert levels(tmp_path, "0::/../../pod1/c1\n", lambda base: own_parts(base, 78)) == []


def test_evicted_memory_that_is_on_the_host_already_needs_no_room() -> None:
    before = Cgroup("a", 4 * GIB, GIB, 0)
    after = Cgroup("a", 4 * GIB, 3 * GIB, 2 * GIB)
    assert before.room == after.room == 3 * GIB - MARGIN


def test_small_needs_are_met_and_the_others_share_the_rest() -> None:
    assert share_of(110, [10, 100, 90]) == 50
    assert share_of(500, [10, 100, 90]) == UNLIMITED
    assert share_of(200, [10, 100, 90]) == UNLIMITED
    assert share_of(199, [10, 100, 90]) == 99
    assert share_of(0, [10, 100, 90]) == 0
    assert share_of(5, []) == UNLIMITED


def test_the_tightest_level_decides_and_the_number_to_set_is_said() -> None:
    pod = Cgroup("pod", 8 * GIB, GIB, 0)
    container = Cgroup("container", 4 * GIB, GIB, 0)
    wanted = {(1, "g"): 12 * GIB, (2, "g"): GIB}
    rooms, short = measure(wanted, {1: [container, pod], 2: [pod]}, None)
    assert rooms == {(1, "g"): 3 * GIB - MARGIN}
    assert short == [Shortfall(1, 9 * GIB + MARGIN, 4 * GIB, "container")]
    assert "at least 13440Mi" in short[0].text


def test_all_share_what_the_node_has_and_what_they_moved_there_already() -> None:
    wanted = {(1, "g"): 8 * GIB, (2, "g"): 8 * GIB}
    cgroups = {1: [Cgroup("a", None, 0, 4 * GIB)], 2: [Cgroup("b", None, 0, 0)]}
    rooms, short = measure(wanted, cgroups, 8 * GIB)
    assert rooms == {(1, "g"): 6 * GIB, (2, "g"): 6 * GIB}
    assert [(one.client, one.missing, one.limit) for one in short] == [(1, 2 * GIB, None), (2, 2 * GIB, None)]
    assert "the node has too little" in short[0].text
    assert measure(wanted, cgroups, 12 * GIB) == ({}, [])


@pytest.mark.parametrize(
    ("text", "found"),
    [("MemTotal: 9 kB\nMemAvailable:   2048 kB\n", 2 * MIB), ("MemAvailable: much\n", None), ("", None)],
)
def test_what_the_node_has(text: str, found: int | None) -> None:
    assert available_memory(text) == found
