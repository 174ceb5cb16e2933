"""Traces of real programs on the simulated driver, read as the end-to-end tests read them."""

import signal
import subprocess
import sys
import textwrap

from nvshare.simgpu.timeline import timeline
from nvshare.simgpu.trace import Kind, Memory, overlaps, trespasses
from simgpu.node import MakeNode, Node
from support.waiting import wait_until

WORKER = """
    import ctypes, sys
    cuda = ctypes.CDLL("libcuda.so.1")
    context, module, kernel, memory = (ctypes.c_void_p() for _ in range(4))
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAllocManaged(ctypes.byref(memory), ctypes.c_size_t(64 << 20), 1) == 0
    image = b".version 8.0\\n.visible .entry sim_spin_us(.param .u64 us) { ret; }\\0"
    assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"sim_spin_us") == 0
    us = ctypes.c_uint64(int(sys.argv[1]))
    params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(us), ctypes.c_void_p))
    def launch():
        assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, params, None) == 0
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            launch()
        assert cuda.cuCtxSynchronize() == 0
        print("done", flush=True)
"""


def worker(node: Node, us: int) -> "subprocess.Popen[str]":
    child = node.start(sys.executable, "-c", textwrap.dedent(WORKER), str(us))
    hear(child, "ready")
    return child


def tell(child: "subprocess.Popen[str]", launches: int) -> None:
    assert child.stdin is not None
    print(launches, file=child.stdin, flush=True)


def hear(child: "subprocess.Popen[str]", word: str) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == f"{word}\n", child.stderr and child.stderr.read()


def end(*children: "subprocess.Popen[str]") -> None:
    for child in children:
        child.communicate()
        assert child.returncode == 0


def test_kernels_of_two_processes_at_once_show_up_as_overlaps(make_node: MakeNode) -> None:
    node = make_node(gpus=1, trace=1, slice="1ms")
    first, second = worker(node, 50_000), worker(node, 50_000)
    tell(first, 60)  # three seconds: the second one comes to its first kernel meanwhile
    wait_until(lambda: any(trace.kernels() for trace in node.traces()), "the first kernel")
    tell(second, 10)
    for child in (first, second):
        hear(child, "done")
    end(first, second)
    traces = node.traces()
    assert sorted(len(trace.kernels()) for trace in traces) == [10, 60]
    found = overlaps(traces)
    assert found
    assert all(overlap.uuid == traces[0].uuids[0] and overlap.end_ns > overlap.begin_ns for overlap in found)
    # They shared the card by turns: together no faster than one after the other.
    begin = min(kernel.begin_ns for trace in traces for kernel in trace.kernels())
    finish = max(kernel.known_end_ns for trace in traces for kernel in trace.kernels())
    assert finish - begin >= 70 * 50_000_000 * 0.95


def test_processes_that_take_turns_do_not_overlap_nor_trespass(make_node: MakeNode) -> None:
    node = make_node(gpus=1, trace=1)
    children = [worker(node, 5_000), worker(node, 5_000)]
    for _ in range(3):
        for child in children:
            tell(child, 2)
            hear(child, "done")
    end(*children)
    traces = node.traces()
    assert overlaps(traces) == []
    card = traces[0].uuids[0]
    spans = {
        (trace.process, card): [(kernel.begin_ns, kernel.known_end_ns) for kernel in trace.kernels()]
        for trace in traces
    }
    assert trespasses(traces, spans) == []
    first = traces[0].process
    assert len(trespasses(traces, {**spans, (first, card): spans[first, card][:-1]})) == 1
    (lanes,) = (drawn.lanes for drawn in timeline(traces, gap_s=0).cards)
    assert [lane.kernels for lane in lanes] == [6, 6]
    assert all(0.025 <= lane.busy_s <= 5 for lane in lanes)


def test_what_a_killed_process_did_is_still_in_its_trace(make_node: MakeNode) -> None:
    node = make_node(gpus=1, trace=1)
    child = worker(node, 10_000_000)
    tell(child, 2)
    wait_until(lambda: node.traces()[0].kernels(), "the first kernel")
    child.send_signal(signal.SIGKILL)
    child.wait()
    (killed,) = node.traces()
    assert killed.pid == child.pid
    (allocation,) = [record for record in killed.of_kind(Kind.ALLOC) if record.detail == Memory.MANAGED]
    assert allocation.bytes == 64 << 20
    assert [kernel.end_ns for kernel in killed.kernels()] == [None]
    assert killed.kernels()[0].name == "sim_spin_us"


def test_a_short_kernel_does_not_wait_for_a_long_one_to_page_in(make_node: MakeNode) -> None:
    node = make_node(gpus=1, trace=1)
    long, short = worker(node, 200_000_000), worker(node, 1)
    tell(long, 1)
    wait_until(lambda: any(trace.kernels() for trace in node.traces()), "the first kernel")
    tell(short, 1)
    hear(short, "done")
    long.kill()
    long.communicate()
    end(short)
    (kernel,) = next(trace for trace in node.traces() if trace.pid == short.pid).kernels()
    # 64 MiB are paged in in 24 ms, in slices of 2 ms taken in turn with the long kernel. Were the long one's time per
    # chunk (200 s over 32) not to be cut, each of those turns would take 6 s.
    assert kernel.known_end_ns - kernel.begin_ns < 30_000_000_000
