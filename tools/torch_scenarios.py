"""What PyTorch does on a simulated GPU, one function per scenario; run by torch_check.py inside PyTorch's own venv.

Kernels take time and compute nothing there, so values are checked where bytes are moved: copies, memsets, graphs of
them. Everything else is checked by what PyTorch itself reports.
"""

import re
import sys
import time
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]  # only in its own venv
from torch import multiprocessing
from torch.utils.data import DataLoader, TensorDataset  # type: ignore[import-not-found]  # the same

GUIDES = Path(__file__).resolve().parents[1] / "docs" / "guides.md"
GIB = 1 << 30
CARD_BYTES = 16 * GIB
SEGMENT_SLACK = 32 << 20  # expandable segments come in pieces of 20 MiB


def available() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    properties = torch.cuda.get_device_properties(0)
    assert properties.total_memory == CARD_BYTES
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability(0) == (8, 0)
    assert torch.cuda.get_device_name(1) == "Simulated GPU"
    assert properties.uuid != torch.cuda.get_device_properties(1).uuid


def two_gib() -> None:
    small = torch.zeros(1, device="cuda")  # the context and PyTorch's first segment are there
    before, total = torch.cuda.mem_get_info()
    assert total == CARD_BYTES
    tensor = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() >= 2 * GIB
    during, _ = torch.cuda.mem_get_info()
    assert 2 * GIB <= before - during <= 2 * GIB + SEGMENT_SLACK, (before, during)
    del tensor
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    assert before <= after <= before + SEGMENT_SLACK, (after, before)
    assert small.numel() == 1


def round_trip() -> None:
    for dtype in (torch.float32, torch.int64, torch.float16, torch.uint8):
        source = (torch.arange(1_000_003) % 251).to(dtype)
        assert torch.equal(source.cuda().cpu(), source)
        pinned = source.pin_memory()
        assert pinned.is_pinned()
        moved = pinned.to("cuda", non_blocking=True)
        back = torch.empty_like(source).pin_memory()
        back.copy_(moved.clone(), non_blocking=True)
        torch.cuda.synchronize()
        assert torch.equal(back, source)
    other = torch.arange(1000).to("cuda:1")
    assert torch.equal(other.to("cuda:0").cpu(), torch.arange(1000))


def kernels() -> None:
    x = torch.ones(1024, 1024, device="cuda")
    for _ in range(20):
        x = torch.relu(x * 2 + 1)
    torch.cuda.synchronize()
    assert x.shape == (1024, 1024)
    assert x.sum().device.type == "cuda"


def training() -> None:
    """Autograd and an optimiser; elementwise, since cuBLAS and cuDNN do not work on a simulated driver."""
    weight = torch.nn.Parameter(torch.ones(1 << 16, device="cuda"))
    optimizer = torch.optim.Adam([weight])
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.tanh(weight * torch.randn(1 << 16, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    assert weight.grad is not None
    assert weight.grad.shape == weight.shape
    assert torch.cuda.max_memory_allocated() >= 3 * weight.nbytes


def data_loader() -> None:
    """Forked workers and pinned memory."""
    data = TensorDataset(torch.arange(1000, dtype=torch.float64))
    torch.zeros(1, device="cuda")  # CUDA is in use before the fork
    total = 0.0
    for (batch,) in DataLoader(data, batch_size=50, num_workers=2, pin_memory=True):
        assert batch.is_pinned()
        total += float(batch.to("cuda", non_blocking=True).cpu().sum())
    assert total == 999 * 500, total


def streams_and_events() -> None:
    side = torch.cuda.Stream()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    source = torch.arange(1 << 20, dtype=torch.int32).pin_memory()
    x = torch.ones(1 << 20, device="cuda")
    with torch.cuda.stream(side):
        start.record()
        device = source.to("cuda", non_blocking=True)
        for _ in range(100):
            x = x + 1
        stop.record()
    torch.cuda.current_stream().wait_stream(side)
    device.record_stream(torch.cuda.current_stream())
    stop.synchronize()
    assert stop.query()
    assert side.query()
    assert start.elapsed_time(stop) > 0
    assert torch.equal(device.cpu(), source)
    assert torch.cuda.Stream(priority=-1).priority == -1


def graphs() -> None:
    static_in = torch.zeros(4096, dtype=torch.int32, device="cuda")
    static_out = torch.zeros(4096, dtype=torch.int32, device="cuda")
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        static_out.copy_(static_in)
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        between = static_in.clone()
        between2 = between * 1
        static_out.copy_(between)
    assert between2.shape == between.shape
    for value in (3, 77):
        expected = torch.full((4096,), value, dtype=torch.int32)
        static_in.copy_(expected)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(static_out.cpu(), expected), value
    graph.reset()
    broken = torch.cuda.CUDAGraph()
    refusal = ""
    try:
        with torch.cuda.graph(broken):
            torch.cuda.synchronize()
    except RuntimeError as error:
        refusal = str(error)
    assert "captur" in refusal, refusal
    torch.cuda.synchronize()
    assert torch.equal(static_out.clone().cpu(), static_out.cpu())


def compiled() -> None:
    """torch.compile and so Triton: kernels are generated, compiled, loaded and launched; with "reduce-overhead" as a
    graph; also their gradients. They compute nothing here, so what is checked is that they were launched."""
    mode, direction = sys.argv[2], sys.argv[3]
    step = torch.compile(lambda x, y: torch.relu(x * 2 + y).sum(), mode=None if mode == "default" else mode)
    x, y = (torch.ones(1 << 16, device="cuda", requires_grad=direction == "backward") for _ in range(2))
    for _ in range(4):  # the second one records a graph, later ones launch it
        torch.compiler.cudagraph_mark_step_begin()
        x.grad = y.grad = None  # PyTorch refuses to add to a gradient that lies in the graph's memory
        result = step(x, y)
        assert result.shape == ()
        if direction == "backward":
            result.backward()
            assert x.grad is not None
            assert x.grad.shape == x.shape
    torch.cuda.synchronize()
    made = torch._dynamo.utils.counters["inductor"]
    assert not torch._dynamo.utils.counters["graph_break"], made
    from torch._inductor import metrics  # type: ignore[import-not-found]

    assert metrics.generated_kernel_count > 0


def _received(inbox: Any, outbox: Any) -> None:
    shared = inbox.get(timeout=300)
    outbox.put((shared.is_cuda, torch.equal(shared.cpu(), torch.arange(1 << 20))))
    del shared


def between_processes() -> None:
    """A tensor on the GPU is given to another process: by IPC handles of memory and events."""
    spawned = multiprocessing.get_context("spawn")
    inbox, outbox = spawned.Queue(), spawned.Queue()
    other = spawned.Process(target=_received, args=(inbox, outbox))
    other.start()
    shared = torch.arange(1 << 20).cuda()
    inbox.put(shared)
    assert outbox.get(timeout=300) == (True, True)
    other.join(60)
    assert other.exitcode == 0


def out_of_memory() -> None:
    pattern = (torch.arange(1 << 20) % 253).to(torch.uint8)
    kept = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    kept[: 1 << 20].copy_(pattern)
    hoard: list[torch.Tensor] = []
    try:
        for _ in range(64):
            hoard.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        refusal = str(error)
    else:
        raise AssertionError("64 GiB fitted on a card of 16 GiB")
    assert len(hoard) in (14, 15), (len(hoard), refusal)  # 16 less the kept one and, of native memory, the context
    assert refusal
    hoard.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    again = torch.empty(8 * GIB, dtype=torch.uint8, device="cuda")  # the card is as usable as before
    again[: 1 << 20].copy_(kept[: 1 << 20])
    assert torch.equal(again[: 1 << 20].cpu(), pattern)
    allocator = sys.argv[2]
    assert torch.cuda.get_allocator_backend() == ("cudaMallocAsync" if allocator == "async" else "native")
    if allocator != "async":
        segments = torch.cuda.memory_snapshot()
        assert {segment["is_expandable"] for segment in segments} == {allocator == "expandable"}


def limited() -> None:
    """A memory limit of so many GiB: seen, enforced, and nothing below it is refused."""
    limit = int(sys.argv[2]) * GIB
    assert torch.cuda.get_device_properties(0).total_memory == limit
    small = torch.empty(GIB // 4, dtype=torch.uint8, device="cuda")
    free, total = torch.cuda.mem_get_info()
    assert total == limit, total
    assert limit // 2 <= free <= limit - small.nbytes, free
    try:
        big = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        assert limit < 2 * GIB
    else:
        assert limit >= 2 * GIB + small.nbytes
        assert big.nbytes == 2 * GIB
    again = torch.empty(GIB // 4, dtype=torch.uint8, device="cuda")
    again.copy_(small)
    torch.cuda.synchronize()


def working() -> None:
    """Holds some GiB, launches kernels and captures and replays graphs for some seconds, as one of several programs."""
    gib, seconds = int(sys.argv[2]), float(sys.argv[3])
    held = torch.empty(gib * GIB, dtype=torch.uint8, device="cuda")
    x = torch.ones(1 << 20, device="cuda")
    end, launched = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(50):
            x = x + 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x
            for _ in range(10):
                y = y * 2
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        launched += 80
    assert held.nbytes == gib * GIB
    print("launched", launched)


def guide() -> None:
    """The program in docs/guides.md, as it is printed there."""
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDES.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(program, str(GUIDES), "exec"), {})
    assert torch.cuda.max_memory_allocated() > 4 * 8192 * 8192


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(sys.argv[1], "fine")
