"""Generates docs/interception.md from symbols.def and passed.def of libnvshare: what happens to every driver function.

python tools/interception.py          write the page
python tools/interception.py --check  fail if it is stale
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYMBOLS = ROOT / "native" / "libnvshare" / "lookup" / "symbols.def"
PASSED = ROOT / "native" / "libnvshare" / "lookup" / "passed.def"
PAGE = ROOT / "docs" / "interception.md"

_ROW = re.compile(r"^NVS_(STREAM|SYNC|HOOK)(_PAIR)?\((\w+), (\w+), (\d+), (NVS_\w+|\d+)", re.MULTILINE)

REASONS = {
    "launch": ("gated", "submits work: passes the gate of the stream's GPU"),
    "copy": ("gated", "copies memory: passes the gate of the stream's GPU (a peer copy: the gates of both GPUs)"),
    "set": ("gated", "writes memory: passes the gate of the stream's GPU"),
    "prefetch": ("gated", "moves managed memory: passes the gate of the stream's GPU"),
    "memory": (
        "counted",
        "allocates or frees device memory: charged before the driver is called, refused over the limit",
    ),
    "graph": ("counted", "an executable graph is charged for its allocation nodes until its destruction"),
    "instance": ("observed", "a graph's launches use what its nodes name: their new parameters are read"),
    "told": ("answered", "total = min(limit, card), free = what the group may still allocate"),
    "pointer": ("answered", "memory from cuMemAlloc looks like device memory, although it is managed memory"),
    "ipc": ("observed", "managed memory has no IPC handles: the first failure names NVSHARE_MEMORY_MODE=native"),
    "heap": (
        "counted",
        "heap and stacks of kernels take memory of the card: charged before the driver is called",
    ),
    "context": ("observed", "a drain needs the list of all existing contexts and streams"),
    "peers": (
        "observed",
        "from the first one on, memory from cuMemAlloc prefers the GPU that it was allocated on, "
        "because peers would move its pages",
    ),
    "capture": ("observed", "the library must not record an event on a stream that captures"),
    "kernel": (
        "observed",
        "the driver is asked about the parameters of a launched kernel or function, to know what it uses",
    ),
    "lookup": ("observed", "returns the library's functions instead of the driver's"),
}

_PATTERNS = (
    (r"^cuGetProcAddress|^cuInit$", "lookup"),
    (r"^cuStream(Begin|End)(Re)?[cC]apture|^cuStreamWaitEvent", "capture"),
    (r"^cuCtxSetLimit", "heap"),
    (r"^cuCtxEnablePeerAccess", "peers"),
    (r"^cuCtx|^cuGreenCtx|^cuDevicePrimaryCtx|^cuStream", "context"),
    (r"^cuPointerGet", "pointer"),
    (r"^cuLibrary", "kernel"),
    (r"^cuIpcGetMemHandle", "ipc"),
    (r"^cuMemGetInfo|^cuDeviceTotalMem", "told"),
    (r"^cuGraphExec\w+SetParams|^cuGraphExecUpdate", "instance"),
    (r"^cuGraphInstantiate|^cuGraphExecDestroy", "graph"),
    (r"^cuLaunch|^cuGraphLaunch|^cuGraphUpload", "launch"),
    (r"^cuMemcpy|^cuMemBatchDecompress", "copy"),
    (r"^cuMemset", "set"),
    (r"^cuMemPrefetch|^cuMemDiscard", "prefetch"),
    (r"^cuMem|^cuArray|^cuMipmapped", "memory"),
)

_HEAD = """\
# What the library does with each driver function

Generated from `native/libnvshare/lookup/symbols.def` and `passed.def` by `make generate`. Do not edit.

| class | meaning |
|---|---|
| gated | the call waits for the process's turn on the GPU |
| counted | its memory is charged to the process |
| observed | passed to the driver; the library records what it needs to know |
| answered | the library changes the answer |
| passed | passed to the driver unchanged |

Functions for the legacy and for the per-thread default stream (`_ptsz`, `_ptds`) are treated the same way.

## What preloading cannot intercept

- Programs that bypass symbol lookup: `RTLD_DEEPBIND`, `dlmopen`, a `dlsym` looked up in libc by handle, direct system
  calls, static linking.
- Work submitted through NVIDIA's private tables (`cuGetExportTable`). The tables are returned unchanged.
- The 32-bit functions from before CUDA 3.2 (`cuMemAlloc` without `_v2`).
- Kernels that launch kernels or allocate memory on the device. They run in their parent's turn; their memory belongs to
  the context.
- Memory of modules (static `__device__` variables) and of contexts. The scheduler uses NVML's figure for a context, or
  400 MiB.
- A program that removes the library from `LD_PRELOAD`. The scheduler detects it with NVML and shows it.

"""


def intercepted() -> dict[str, str]:
    """Each intercepted name and its group in REASONS."""
    names = dict.fromkeys(match[3] for match in _ROW.finditer(SYMBOLS.read_text()))
    return {name: next(group for pattern, group in _PATTERNS if re.search(pattern, name)) for name in names}


def passed() -> dict[str, str]:
    """Each name that passes and the reason."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in PASSED.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            reason = line.removesuffix(":")
            continue
        for name in line.split():
            assert name not in reasons, f"{name} is in {PASSED} twice"
            reasons[name] = reason
    return reasons


def page() -> str:
    rows = [(name, *REASONS[group]) for name, group in intercepted().items()]
    rows += [(name, "passed", reason) for name, reason in passed().items()]
    table = "".join(f"| `{name}` | {what} | {why} |\n" for name, what, why in sorted(rows))
    return f"{_HEAD}## Functions\n\n| function | class | reason |\n|---|---|---|\n{table}"


def main() -> int:
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
        return 0
    if not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.relative_to(ROOT)} is stale: run `make generate`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
