"""Where the test cluster lives. The names that the build scripts use too come from settings.sh."""

import socket
import subprocess
from pathlib import Path

_SETTINGS = Path(__file__).with_name("settings.sh")


def _shell_settings() -> dict[str, str]:
    """What settings.sh exports; its message and exit status if a value is wrong."""
    done = subprocess.run(["bash", "-c", '. "$0" && env -0', _SETTINGS], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    return dict(line.partition("=")[::2] for line in done.stdout.split("\0"))


_SHELL = _shell_settings()
CACHE = Path(_SHELL["CLUSTER_CACHE"])
BIN = Path(_SHELL["CLUSTER_BIN"])
TOOLS = Path(_SHELL["CLUSTER_TOOLS"])
"""Programs that do not depend on the release: helm."""
RUN = Path(_SHELL["CLUSTER_RUN"])
KUBERNETES_MINOR = int(_SHELL["KUBERNETES"].partition(".")[2])
FEATURE_GATES = _SHELL["CLUSTER_FEATURE_GATES"]
_DEBIAN_BIN = Path("/usr/bin")
IS_RUNTIME_BUILT = bool(_SHELL["CONTAINERD_VERSION"])
"""Whether containerd is ours and not Debian's."""
RUNTIME_BIN = Path(_SHELL["CONTAINERD_BIN"]) if IS_RUNTIME_BUILT else _DEBIAN_BIN
"""Where containerd and ctr are."""
ETCD = (Path(_SHELL["ETCD_BIN"]) if _SHELL["ETCD_VERSION"] else _DEBIAN_BIN) / "etcd"
HAS_SHARED_CLAIMS = KUBERNETES_MINOR >= 36 or "DRAConsumableCapacity=true" in FEATURE_GATES
"""Whether the cluster has what the DRA driver needs."""
KUEUE_TYPES = Path(_SHELL["KUEUE_TYPES"])
"""Kueue's CustomResourceDefinitions, and the Go source of its configuration."""
KUBELET_API = Path(_SHELL["KUBELET_API"])
"""The .proto files of kubelet's API for plugins, as the release has them."""
LOGS = RUN / "logs"
PKI = RUN / "pki"
KUBECONFIG = PKI / "admin.kubeconfig"
CONTAINERD_SOCKET = RUN / "containerd" / "containerd.sock"
KUBELET_ROOT = Path("/var/lib/kubelet")

NODE = "nvshare-node"
SERVICE_IP = "10.96.0.1"
SERVICE_RANGE = "10.96.0.0/16"
POD_RANGE = "10.88.0.0/16"
SIM_DIR = Path("/var/lib/nvshare-sim")
"""The simulated cards' state, shared by every container that a GPU is given to."""


def node_ip() -> str:
    """This machine's own address, as kubelet will find it (no packet is sent)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
