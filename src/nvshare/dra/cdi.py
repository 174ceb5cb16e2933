"""The CDI file of a prepared claim: what the container runtime adds to a container that has the claim. Pure.

The GPU itself is another CDI device, which NVIDIA's toolkit describes. A container may have several claims: an
edit may be repeated without effect, because the runtime replaces a variable or a mount of the same name.

A variable of a CDI device replaces the pod's own. So the library is loaded by /etc/ld.so.preload unless the operator
chooses the environment: LD_PRELOAD of a pod stays what it is. What frameworks are told (framework_settings) replaces
what the pod tells them; `preallocate` leaves it out."""

import json

from nvshare.claim_file import PreparedClaim
from nvshare.config import RUN_DIRECTORY
from nvshare.framework_settings import ALLOCATE_AS_NEEDED
from nvshare.native_directory import CONTAINER_DIRECTORY, LIBRARY
from nvshare.plugin.container import PRELOAD_FILE, Injection
from nvshare.record import Record

KIND = "nvshare.com/claim"
_VERSION = "0.5.0"
_PREFIX = "nvshare.com-claim_"
_SUFFIX = ".json"


class CdiOptions(Record, frozen=True):
    """The driver's settings for containers."""

    host_run_dir: str = RUN_DIRECTORY
    injection: Injection = Injection.LD_SO_PRELOAD
    gpu_kind: str = "nvidia.com/gpu"
    preallocate: bool = False
    """Frameworks may allocate most of the GPU when they start, as they do by default."""


def file_name(uid: str) -> str:
    return f"{_PREFIX}{uid}{_SUFFIX}"


def uid_of(name: str) -> str | None:
    """The claim that a file in the CDI directory belongs to; None if it is not ours."""
    if not name.startswith(_PREFIX) or not name.endswith(_SUFFIX):
        return None
    return name.removeprefix(_PREFIX).removesuffix(_SUFFIX)


def device_ids(claim: PreparedClaim, gpu: str, options: CdiOptions) -> list[str]:
    """The CDI devices of one GPU of a claim."""
    return [f"{options.gpu_kind}={gpu}", f"{KIND}={claim.uid}"]


def content(claim: PreparedClaim, options: CdiOptions) -> bytes:
    """The file."""
    environment = {"NVIDIA_VISIBLE_DEVICES": "void"}  # a legacy runtime would add every GPU that an image names
    library_dir = f"{options.host_run_dir}/lib"
    mounts = [(options.host_run_dir, RUN_DIRECTORY), (library_dir, str(CONTAINER_DIRECTORY))]
    if options.injection is Injection.ENV:
        environment["LD_PRELOAD"] = f"{CONTAINER_DIRECTORY}/{LIBRARY}"
    else:
        mounts.append((f"{library_dir}/{PRELOAD_FILE}", "/etc/ld.so.preload"))
    if not options.preallocate:
        environment |= ALLOCATE_AS_NEEDED
    if claim.memory_mode is not None:
        environment["NVSHARE_MEMORY_MODE"] = claim.memory_mode
    edits = {
        "env": [f"{name}={value}" for name, value in environment.items()],
        "mounts": [
            {"hostPath": host, "containerPath": inside, "options": ["ro", "nosuid", "nodev", "bind"]}
            for host, inside in mounts
        ],
    }
    made = {"cdiVersion": _VERSION, "kind": KIND, "devices": [{"name": claim.uid, "containerEdits": edits}]}
    return json.dumps(made, indent=1).encode()
