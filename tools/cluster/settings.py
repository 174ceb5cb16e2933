"""Where the test cluster lives; the same names as settings.sh, which the build scripts use."""

import os
import socket
from pathlib import Path

_XDG = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
CACHE = Path(os.environ.get("CLUSTER_CACHE", _XDG / "nvshare-cluster"))
BIN = Path(os.environ.get("CLUSTER_BIN", CACHE / "bin"))
RUN = Path(os.environ.get("CLUSTER_RUN", "/tmp/nvshare-cluster"))
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
