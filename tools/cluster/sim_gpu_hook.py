"""Brings simulated GPUs into a container that asks for them, by editing the bundle before runc sees it.

It does what NVIDIA's container runtime does for real ones: looks at NVIDIA_VISIBLE_DEVICES, adds the driver's libraries
where the dynamic linker looks, and makes only the named GPUs visible. The libraries and the cards' state come from the
directory named in settings.py, put there by the test; the project's own containers need to know nothing of it."""

import json
import sys
from pathlib import Path

SIM = Path("/var/lib/nvshare-sim")
LIBRARIES = {"libcuda.so.1": "compute", "libnvidia-ml.so.1": "utility"}
TARGETS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")


def edit(spec: dict[str, object]) -> None:
    """Add what the container asks for, if it asks for anything."""
    process = spec["process"]
    mounts = spec["mounts"]
    assert isinstance(process, dict)
    assert isinstance(mounts, list)
    environment = dict(entry.partition("=")[::2] for entry in process.get("env", []))
    visible = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    if visible in ("", "void", "none"):
        return
    if visible.startswith("/"):
        visible = ",".join(
            sorted(Path(mount["destination"]).name for mount in mounts if mount["destination"].startswith(visible))
        )
    for library in LIBRARIES:
        for target in TARGETS:
            mounts.append(_bind(SIM / "lib" / library, f"{target}/{library}", "ro"))
    mounts.append(_bind(SIM / "state", str(SIM / "state"), "rw"))
    settings = json.loads((SIM / "environment.json").read_text()) | {"NVSHARE_SIM_DIR": str(SIM / "state")}
    if visible != "all":
        settings["CUDA_VISIBLE_DEVICES"] = visible
    process["env"] = process.get("env", []) + [f"{name}={value}" for name, value in settings.items()]


def _bind(source: Path, target: str, mode: str) -> dict[str, object]:
    return {"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "rprivate", mode]}


def main() -> None:
    """Edit the bundle named on the command line."""
    path = Path(sys.argv[1])
    spec = json.loads(path.read_text())
    edit(spec)
    path.write_text(json.dumps(spec))


if __name__ == "__main__":
    main()
