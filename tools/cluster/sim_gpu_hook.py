"""Brings simulated GPUs into a container that asks for them, by editing what runc is about to read.

It does what NVIDIA's container runtime does for real ones: looks at NVIDIA_VISIBLE_DEVICES, adds the driver's libraries
where the dynamic linker looks, and makes only the named GPUs visible. The CDI devices of simulated GPUs (`cdi_file`)
set one variable for each GPU, because several devices may be given to one container. A real GPU is hidden by its device
file; a simulated one by the environment, which is why processes that are put into a running container are edited as
well. The libraries and the cards' state come from one directory, filled by the test; nvshare itself knows nothing of
all this.

    sim_gpu_hook.py container BUNDLE/config.json
    sim_gpu_hook.py process PROCESS.json"""

import json
import sys
from pathlib import Path
from typing import Any

SIM = Path("/var/lib/nvshare-sim")
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
CDI_VARIABLE = "SIMULATED_GPU_"
TARGETS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")


def edit_container(spec: dict[str, Any]) -> None:
    """Libraries, state and environment for a new container."""
    if not edit_process(spec["process"]):
        return
    for library in LIBRARIES:
        for target in TARGETS:
            spec["mounts"].append(_bind(SIM / "lib" / library, f"{target}/{library}", "ro"))
    spec["mounts"].append(_bind(SIM / "state", str(SIM / "state"), "rw"))


def edit_process(process: dict[str, Any]) -> bool:
    """The environment; False when the process asks for no GPU."""
    environment = dict(entry.partition("=")[::2] for entry in process.get("env", []))
    given = sorted(value for name, value in environment.items() if name.startswith(CDI_VARIABLE))
    visible = ",".join(given) or environment.get("NVIDIA_VISIBLE_DEVICES", "")
    if visible in ("", "void", "none"):
        return False
    settings = json.loads((SIM / "environment.json").read_text()) | {"NVSHARE_SIM_DIR": str(SIM / "state")}
    if visible != "all":
        settings["CUDA_VISIBLE_DEVICES"] = visible
    process["env"] = process.get("env", []) + [f"{name}={value}" for name, value in settings.items()]
    return True


def cdi_file(uuids: list[str]) -> dict[str, object]:
    """The CDI specification of the node's GPUs, as `nvidia-ctk cdi generate --device-name-strategy=uuid` makes it."""
    devices = [
        {"name": uuid, "containerEdits": {"env": [f"{CDI_VARIABLE}{uuid.replace('-', '_')}={uuid}"]}} for uuid in uuids
    ]
    return {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}


def _bind(source: Path, target: str, mode: str) -> dict[str, object]:
    return {"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "rprivate", mode]}


def main() -> None:
    """Edit the file named on the command line."""
    what, path = sys.argv[1], Path(sys.argv[2])
    spec = json.loads(path.read_text())
    if what == "container":
        edit_container(spec)
    else:
        edit_process(spec)
    path.write_text(json.dumps(spec))


if __name__ == "__main__":
    main()
