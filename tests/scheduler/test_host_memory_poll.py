"""When host memory is measured, and who is told."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.fake_apiserver import FakeApiServer, pod
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, HostRoom, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.story import summary_of
from nvshare.scheduler.sources.cgroup_memory import MARGIN
from nvshare.scheduler.sources.host_memory import SLICE, HostMemoryPoll
from support.cgroup_files import write_v2
from support.cluster import cluster

POD = "/kubepods/pod1/c1"


class Bench:
    """An engine with clients in cgroups of their own, and the poll that looks at them."""

    def __init__(self, place: Path) -> None:
        self.steps: list[Step] = []
        self.reported: list[tuple[int, str]] = []
        self.charged: Counter[int] = Counter()
        self.step_ns = 0
        """How much later it is at each look at the clock."""
        loop = asyncio.new_event_loop()
        self.now = SECOND
        self.engine = Engine(Node(Settings(), epoch=1, is_paranoid=True), loop, clock=self.clock)
        self.engine.observers.append(self.steps.append)
        self.proc, self.root = place / "proc", place / "cgroup"
        self.proc.mkdir()
        (self.proc / "meminfo").write_text(f"MemAvailable: {100 << 20} kB\n")
        self.poll = HostMemoryPoll(
            self.engine,
            report=lambda client, text: self.reported.append((client, text)),
            charge=lambda began, ended, clients: self.charged.update(clients.keys() if ended > began else ()),
            proc=self.proc,
            cgroup_root=self.root,
        )

    def clock(self) -> int:
        self.now += self.step_ns
        return self.now

    def join(self, client: int, limit: int) -> None:
        (self.proc / str(client)).mkdir()
        (self.proc / str(client) / "cgroup").write_text(f"0::/{client}\n")
        write_v2(self.root / str(client), limit=limit, current=GIB // 2)
        self.register(client, pid=client)

    def register(self, client: int, *, pid: int) -> None:
        claim = Claim("g", 16 * GIB)
        self.engine.post(ev.ClientRegistered(client, f"pod/{client}", "x", f"p{client}", (claim,), pid=pid))

    def crowd(self, members: int) -> None:
        """One process with many clients, which all have had a turn, and no room on the host."""
        self.join(1, limit=GIB)
        for client in range(1, members + 1):
            if client > 1:
                self.register(client, pid=1)
            lock = self.engine.node.clients[client].seats["g"]
            self.engine.post(ev.LockRequested(client, "g", Memory(GIB)))
            self.engine.post(ev.LockReleased(client, "g", lock.lock, False))

    def states(self) -> dict[str, str]:
        return {client.name: client.seats[0].state for client in snapshot(self.engine.node, 0).clients}


def test_a_pod_whose_memory_limit_is_too_small_is_not_evicted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.join(1, limit=4 * GIB)
    bench.join(2, limit=64 * GIB)
    bench.engine.post(ev.LockRequested(1, "g", Memory(12 * GIB)))
    bench.poll.look()
    assert bench.steps[-1].event == ev.HostMemoryMeasured((HostRoom(1, "g", 4 * GIB - GIB // 2 - MARGIN),))
    assert [client for client, _ in bench.reported] == [1]
    assert "Set its memory limit to at least 12928Mi" in bench.reported[0][1]
    bench.engine.post(ev.LockRequested(2, "g", Memory(9 * GIB)))
    bench.poll.look()
    assert bench.states() == {"p1": "running", "p2": "blocked"}
    assert "the host has no room for 8.62 GiB of p1 (0001)" in summary_of(snapshot(bench.engine.node, 0), 2)
    assert len(bench.reported) == 1, "it is said once"
    write_v2(tmp_path / "cgroup" / "1", limit=13 * GIB, current=GIB // 2)
    bench.poll.look()
    assert bench.states() == {"p1": "running", "p2": "waiting"}


def test_on_a_kernel_that_does_not_show_kernel_memory_it_is_estimated_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "info", said.append)
    bench = Bench(tmp_path)
    bench.join(1, limit=4 * GIB)
    (tmp_path / "cgroup/1/memory.stat").write_text(f"anon {GIB // 4}\nfile 0\nsock 0\ninactive_file 0\n")
    bench.engine.post(ev.LockRequested(1, "g", Memory(12 * GIB)))
    bench.poll.look()
    bench.poll.look()
    assert bench.steps[-1].event == ev.HostMemoryMeasured((HostRoom(1, "g", 4 * GIB - GIB // 4 - MARGIN),))
    assert [text.endswith("it is estimated") for text in said] == [True]


def test_a_client_that_never_ran_or_has_ended_is_not_measured(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.join(1, limit=GIB)
    bench.engine.post(ev.MemoryChanged(1, "g", Memory(12 * GIB)))
    steps = len(bench.steps)
    bench.poll.look()
    bench.engine.post(ev.LockRequested(1, "g", Memory(12 * GIB)))
    (tmp_path / "proc" / "1" / "cgroup").unlink()
    bench.poll.look()
    assert len(bench.steps) == steps + 1


def test_a_node_without_memory_blocks_as_a_small_limit_does(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.join(1, limit=64 * GIB)
    (tmp_path / "proc" / "meminfo").write_text(f"MemAvailable: {4 << 20} kB\n")
    bench.engine.post(ev.LockRequested(1, "g", Memory(12 * GIB)))
    bench.poll.look()
    assert bench.steps[-1].event == ev.HostMemoryMeasured((HostRoom(1, "g", 4 * GIB),))
    assert "the node has too little free memory" in bench.reported[0][1]


def test_a_client_that_says_it_has_more_than_the_card_needs_no_more_of_the_host(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.join(1, limit=64 * GIB)
    (tmp_path / "proc" / "meminfo").write_text(f"MemAvailable: {16 << 20} kB\n")
    bench.engine.post(ev.LockRequested(1, "g", Memory(1 << 50)))
    bench.poll.look()
    assert bench.reported == []


def test_a_crowd_is_measured_in_slices_and_each_process_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.crowd(3 * SLICE)
    reads: list[Path] = []

    def read(path: Path) -> str:
        reads.append(path)
        return path.read_text()

    monkeypatch.setattr("nvshare.scheduler.sources.host_memory.proc_text", read)
    served = sum(1 for _ in bench.poll._look())
    assert served == 6, "three slices of clients, and three of rooms"
    assert [path.name for path in reads] == ["cgroup", "meminfo"]
    rooms = [step.event.rooms for step in bench.steps if isinstance(step.event, ev.HostMemoryMeasured)]
    assert [len(some) for some in rooms] == [SLICE] * 3


def test_a_client_that_leaves_during_a_measurement_is_not_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.crowd(2)
    slices = bench.poll._look()
    next(slices)
    bench.engine.post(ev.ClientLeft(2))
    assert list(slices) == [None]
    assert bench.steps[-1].event == ev.HostMemoryMeasured((HostRoom(1, "g", (GIB // 2 - MARGIN) // 2),))


def test_a_measurement_is_charged_and_a_long_one_is_not_made_before_an_event(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.engine.before = bench.poll.before
    bench.crowd(2)
    bench.charged.clear()
    bench.step_ns = 10 * MILLISECOND
    bench.poll.look()
    assert bench.charged.keys() == {1, 2}
    bench.now += SECOND
    steps = len(bench.steps)
    bench.engine.post(ev.LockRequested(2, "g", Memory(15 * GIB)))
    assert len(bench.steps) == steps + 1


def test_a_switch_is_decided_on_a_measurement_that_is_not_old(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.engine.before = bench.poll.before
    bench.join(1, limit=64 * GIB)
    bench.join(2, limit=64 * GIB)
    bench.engine.post(ev.LockRequested(1, "g", Memory(12 * GIB)))
    bench.poll.look()
    write_v2(tmp_path / "cgroup" / "1", limit=4 * GIB, current=GIB // 2)
    bench.now += 500 * MILLISECOND
    bench.engine.post(ev.MemoryChanged(2, "g", Memory(9 * GIB)))
    assert type(bench.steps[-2].event) is not ev.HostMemoryMeasured, "it is not old yet"
    bench.now += 1
    bench.engine.post(ev.LockRequested(2, "g", Memory(9 * GIB)))
    assert [type(step.event) for step in bench.steps[-2:]] == [ev.HostMemoryMeasured, ev.LockRequested]
    assert bench.states() == {"p1": "running", "p2": "blocked"}


def test_nothing_is_read_while_the_card_holds_the_memory_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.engine.before = bench.poll.before
    looks: list[int] = []
    monkeypatch.setattr(bench.poll, "look", lambda: looks.append(bench.now))
    bench.join(1, limit=64 * GIB)
    bench.join(2, limit=64 * GIB)
    bench.engine.post(ev.LockRequested(1, "g", Memory(4 * GIB)))
    bench.now += 10 * SECOND
    bench.engine.post(ev.LockRequested(2, "g", Memory(4 * GIB)))
    assert looks == []
    bench.engine.post(ev.MemoryChanged(2, "g", Memory(12 * GIB)))
    assert looks == [bench.now]


def test_only_a_client_that_comes_or_waits_causes_a_measurement_and_not_more_than_ten_in_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.join(1, limit=64 * GIB)
    bench.engine.observers.append(bench.poll.observe)
    slept: list[float] = []
    looked = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def measured() -> None:
        await looked.wait()
        looked.clear()

    async def story() -> None:
        bench.poll._wake = asyncio.Event()
        task = asyncio.get_running_loop().create_task(bench.poll.run())
        await measured()
        bench.engine.post(ev.MemoryChanged(1, "g", Memory(GIB)))
        bench.engine.post(ev.MemoryMoved(1, "g", True, GIB, 5))
        bench.engine.post(ev.LockRequested(1, "g", Memory()))
        assert not bench.poll._wake.is_set()
        bench.join(2, limit=64 * GIB)
        await measured()
        bench.engine.post(ev.LockRequested(2, "g", Memory(20 * GIB)))
        await measured()
        task.cancel()

    def look() -> Iterator[None]:
        looked.set()
        return iter(())

    monkeypatch.setattr(bench.poll, "_look", look)
    monkeypatch.setattr("nvshare.scheduler.sources.host_memory.asyncio.sleep", sleep)
    asyncio.run(story())
    assert slept == [0.1] * 3


def test_the_pods_event_names_the_limit_to_set(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/7").mkdir()
        (tmp_path / "proc/7/cgroup").write_text(f"0::{POD}\n")
        (tmp_path / "proc/meminfo").write_text(f"MemAvailable: {100 << 20} kB\n")
        write_v2(tmp_path / f"cgroup{POD}", limit=4 * GIB, current=GIB // 2)
        async with FakeApiServer() as server:
            await server.put(pod("small"))
            async with cluster(server, tmp_path) as (engine, kubernetes):
                await asyncio.wait_for(kubernetes.pods_listed.wait(), 60)
                poll = HostMemoryPoll(
                    engine,
                    report=kubernetes.report_host_memory,
                    proc=tmp_path / "proc",
                    cgroup_root=tmp_path / "cgroup",
                )
                claim = Claim("g", 16 * GIB)
                engine.post(ev.ClientRegistered(1, "pod/uid-small", "default/small", "big", (claim,), pid=7))
                engine.post(ev.LockRequested(1, "g", Memory(12 * GIB)))
                poll.look()
                await server.until(lambda: bool(server.events))
                (event,) = server.events
                assert (event["reason"], event["involvedObject"]["name"]) == ("HostMemoryTooSmall", "small")
                assert "Process 7 (0001)" in event["message"]
                assert "Set its memory limit to at least 12928Mi" in event["message"]

    asyncio.run(story())
