"""The configuration files and command lines of the cluster's components."""

import json
import sys
from pathlib import Path

from settings import (
    BIN,
    CONTAINERD_SOCKET,
    ETCD,
    FEATURE_GATES,
    IS_RUNTIME_BUILT,
    KUBELET_ROOT,
    LOGS,
    NODE,
    PKI,
    POD_RANGE,
    RUN,
    RUNTIME_BIN,
    SERVICE_IP,
    SERVICE_RANGE,
)

PAUSE_IMAGE = "localhost/nvshare-test/pause:1"


def write_configuration(runtime: Path) -> None:
    """Every file the components read. `runtime` is the OCI runtime: runc, or the one that adds the simulated GPU."""
    for folder in ("containerd", "cni/conf", "cni/data", "etcd", "pods"):
        (RUN / folder).mkdir(parents=True, exist_ok=True)
    (RUN / "containerd.toml").write_text(_containerd(runtime))
    (RUN / "cni/conf/10-ptp.conflist").write_text(json.dumps(_network(), indent=1))
    (RUN / "kubelet.json").write_text(json.dumps(_kubelet(), indent=1))
    (RUN / "audit-policy.json").write_text(json.dumps(_audit_policy(), indent=1))


def _containerd(runtime: Path) -> str:
    # restrict_oom_score_adj: without it a sandbox asks for a score below what this process may give.
    # runtime_path: containerd looks for its shim in the PATH first, where Debian's may be.
    shim = f'runtime_path = "{RUNTIME_BIN}/containerd-shim-runc-v2"' if IS_RUNTIME_BUILT else ""
    return f"""version = 2
root = "{RUN}/containerd/root"
state = "{RUN}/containerd/state"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{RUN}/cni/conf"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      {shim}
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runtime}"
"""


def _network() -> dict[str, object]:
    address = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(RUN / "cni/data"),
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": address}]}


def _kubelet() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "failSwapOn": False,
        "failCgroupV1": False,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "podLogsDir": str(RUN / "pods"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(PKI / "ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "clusterDomain": "cluster.local",
        "maxPods": 110,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "1s",
    }


def _audit_policy() -> dict[str, object]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    }


def command_lines() -> dict[str, list[str]]:
    """The components in the order in which they start."""
    return {
        "etcd": _etcd(),
        "containerd": [str(RUNTIME_BIN / "containerd"), f"--config={RUN}/containerd.toml"],
        "kube-apiserver": _apiserver(),
        "kube-controller-manager": [
            str(BIN / "kube-controller-manager"),
            f"--kubeconfig={PKI}/controller-manager.kubeconfig",
            f"--service-account-private-key-file={PKI}/sa.key",
            f"--root-ca-file={PKI}/ca.crt",
            "--use-service-account-credentials=true",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *_feature_gates(),
            "--node-monitor-grace-period=60s",
            "--controllers=*,-node-ipam-controller",
        ],
        "kube-scheduler": [
            str(BIN / "kube-scheduler"),
            f"--kubeconfig={PKI}/scheduler.kubeconfig",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *_feature_gates(),
        ],
        "kubelet": [
            str(BIN / "kubelet"),
            f"--config={RUN}/kubelet.json",
            f"--kubeconfig={PKI}/kubelet.kubeconfig",
            f"--root-dir={KUBELET_ROOT}",
            f"--hostname-override={NODE}",
            *_feature_gates(),
        ],
    }


def _etcd() -> list[str]:
    return [
        str(ETCD),
        f"--data-dir={RUN}/etcd",
        "--listen-client-urls=http://127.0.0.1:22379",
        "--advertise-client-urls=http://127.0.0.1:22379",
        "--listen-peer-urls=http://127.0.0.1:22380",
        "--initial-advertise-peer-urls=http://127.0.0.1:22380",
        "--initial-cluster=default=http://127.0.0.1:22380",
        "--unsafe-no-fsync",
    ]


def _feature_gates() -> list[str]:
    return [f"--feature-gates={FEATURE_GATES}"] if FEATURE_GATES else []


def _apiserver() -> list[str]:
    return [
        str(BIN / "kube-apiserver"),
        "--etcd-servers=http://127.0.0.1:22379",
        # On the service's own address and port, which this machine has: no kube-proxy, no address translation.
        "--secure-port=443",
        f"--advertise-address={SERVICE_IP}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--client-ca-file={PKI}/ca.crt",
        f"--tls-cert-file={PKI}/apiserver.crt",
        f"--tls-private-key-file={PKI}/apiserver.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={PKI}/admin.crt",
        f"--kubelet-client-key={PKI}/admin.key",
        f"--service-account-key-file={PKI}/sa.pub",
        f"--service-account-signing-key-file={PKI}/sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--audit-policy-file={RUN}/audit-policy.json",
        f"--audit-log-path={LOGS}/audit.log",
        "--allow-privileged=true",
        *_feature_gates(),
    ]


if __name__ == "__main__":
    json.dump(command_lines(), sys.stdout, indent=1)
