"""What PyTorch does on a simulated GPU, one function per scenario; run by torch_check.py inside PyTorch's own venv.

Kernels take time and compute nothing there, so values are checked where bytes are moved: copies, memsets, graphs of
them. Everything else is checked by what PyTorch itself reports.
"""

import sys

import torch  # type: ignore[import-not-found]  # only in its own venv

GIB = 1 << 30
CARD_BYTES = 16 * GIB


def available() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    properties = torch.cuda.get_device_properties(0)
    assert properties.total_memory == CARD_BYTES
    assert (properties.major, properties.minor) == torch.cuda.get_device_capability(0) == (8, 0)
    assert torch.cuda.get_device_name(1) == "Simulated GPU"
    assert properties.uuid != torch.cuda.get_device_properties(1).uuid


def two_gib() -> None:
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    before, total = torch.cuda.mem_get_info()
    assert total == CARD_BYTES
    tensor = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() >= 2 * GIB
    during, _ = torch.cuda.mem_get_info()
    assert before - during == 2 * GIB, (before, during)
    del tensor
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    assert after == before, (after, before)


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
    assert int(torch.zeros(4096, dtype=torch.int32, device="cuda").cpu().abs().max()) == 0
    other = torch.arange(1000).to("cuda:1")
    assert torch.equal(other.to("cuda:0").cpu(), torch.arange(1000))


def kernels() -> None:
    x = torch.ones(1024, 1024, device="cuda")
    for _ in range(20):
        x = torch.relu(x * 2 + 1)
    torch.cuda.synchronize()
    assert x.shape == (1024, 1024)
    assert x.sum().device.type == "cuda"


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


def out_of_memory() -> None:
    kept = torch.zeros(GIB, dtype=torch.uint8, device="cuda")
    hoard: list[torch.Tensor] = []
    try:
        for _ in range(64):
            hoard.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        text = str(error)
    else:
        raise AssertionError("64 GiB fitted on a card of 16 GiB")
    assert 10 <= len(hoard) <= 15, (len(hoard), text)
    assert "out of memory" in text.lower(), text
    hoard.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    again = torch.zeros(8 * GIB, dtype=torch.uint8, device="cuda")
    assert torch.equal(kept[:4096].cpu(), again[:4096].cpu())
    assert torch.cuda.get_allocator_backend() == ("cudaMallocAsync" if "async" in sys.argv[2:] else "native")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(sys.argv[1], "fine")
