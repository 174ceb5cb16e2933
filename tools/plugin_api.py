"""Generate kubelet's APIs from their .proto files, or check that what is committed is not stale.

    python tools/plugin_api.py           write the files
    python tools/plugin_api.py --check   exit 1 and name the files that differ

Needs the grpcio-tools of the `dev` group: another version writes other text, so the version is pinned there."""

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).parent.parent / "src"
PROTOS = ("nvshare/plugin/api/deviceplugin.proto", "nvshare/dra/api/dra.proto")


def generate(into: Path) -> list[Path]:
    """Run protoc; the paths written, relative to `into`."""
    out = [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{SOURCE}", *out, *PROTOS]) != 0:
        sys.exit("plugin_api: protoc failed")
    return sorted(path.relative_to(into) for path in into.rglob("*.py*"))


def main() -> None:
    """Write, or compare."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder)
        fresh = {path: (into / path).read_text() for path in generate(into)}
    if "--check" not in sys.argv[1:]:
        for path, text in fresh.items():
            (SOURCE / path).write_text(text)
        return
    stale = [str(path) for path, text in fresh.items() if not _same(SOURCE / path, text)]
    if stale:
        sys.exit(f"plugin_api: stale, run python tools/plugin_api.py: {', '.join(stale)}")


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text() == text


if __name__ == "__main__":
    main()
