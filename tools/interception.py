"""docs/interception.md from native/libnvshare/symbols.def and passed.def: what happens to every driver function, why.

python tools/interception.py          write the page
python tools/interception.py --check  fail if it is stale
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SYMBOLS = ROOT / "native" / "libnvshare" / "symbols.def"
PASSED = ROOT / "native" / "libnvshare" / "passed.def"
PAGE = ROOT / "docs" / "interception.md"

_ROW = re.compile(r"^NVS_(STREAM|SYNC|HOOK)(_PAIR)?\((\w+), (\w+), (\d+), (NVS_\w+|\d+)", re.MULTILINE)

REASONS = {
    "launch": ("gated", "starts work: passes the gate of the stream's GPU"),
    "copy": ("gated", "moves memory: passes the gate of the stream's GPU (a peer copy: of both)"),
    "set": ("gated", "writes memory: passes the gate of the stream's GPU"),
    "prefetch": ("gated", "moves managed memory: passes the gate of the stream's GPU"),
    "memory": (
        "counted",
        "takes or gives back device memory: charged before the driver is asked, refused over the limit",
    ),
    "graph": ("counted", "an executable graph is charged for its allocation nodes until it is destroyed"),
    "told": ("answered", "total = min(limit, card), free = what may still be allocated"),
    "context": ("observed", "a drain must know every context and stream, and must not touch one that is gone"),
    "capture": ("observed", "no event of ours may meet a stream that captures"),
    "lookup": ("observed", "leads to the functions here instead of the driver's"),
}

_PATTERNS = (
    (r"^cuGetProcAddress|^cuInit$", "lookup"),
    (r"^cuStream(Begin|End)Capture|^cuStreamWaitEvent", "capture"),
    (r"^cuCtx|^cuDevicePrimaryCtx|^cuStream", "context"),
    (r"^cuMemGetInfo|^cuDeviceTotalMem", "told"),
    (r"^cuGraphInstantiate|^cuGraphExecDestroy", "graph"),
    (r"^cuLaunch|^cuGraphLaunch|^cuGraphUpload", "launch"),
    (r"^cuMemcpy|^cuMemBatchDecompress", "copy"),
    (r"^cuMemset", "set"),
    (r"^cuMemPrefetch|^cuMemDiscard", "prefetch"),
    (r"^cuMem|^cuArray|^cuMipmapped", "memory"),
)

_HEAD = """\
# What the library does with each driver function

Made from `native/libnvshare/symbols.def` and `passed.def` by `make generate`: do not edit.

Three things can happen to a call. **Gated**: it waits for the GPU's turn. **Counted**: its memory is charged to the
GPU. **Passed**: the driver gets it as it is. A few are only *observed*, so that the rest can be right, or *answered*
from our own books. The legacy and the per-thread default stream variants (`_ptsz`, `_ptds`) are treated alike.

## What preloading cannot see

- Programs that bind past us: `RTLD_DEEPBIND`, `dlmopen`, `dlsym` looked up in libc by handle, direct system calls,
  static linking.
- Work through NVIDIA's private tables (`cuGetExportTable`). They are handed on untouched.
- The 32-bit forms of functions from before CUDA 3.2 (`cuMemAlloc` without `_v2`).
- Kernels that launch kernels or allocate on the device: they run within their parent's turn, and their memory is part
  of the context.
- Memory of modules (static `__device__` variables) and of contexts: the scheduler plans with NVML's figure, or 400 MiB
  for each context.
- A program that takes the library out of `LD_PRELOAD`. The scheduler sees it through NVML and shows it.

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
    return f"{_HEAD}## The table\n\n| function | | why |\n|---|---|---|\n{table}"


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
