"""Keys and certificates of a throw-away cluster, made with openssl; kubeconfig files that use them."""

import json
import subprocess
from pathlib import Path

from settings import NODE, SERVICE_IP, node_ip

CLIENTS = {
    "admin": "/O=system:masters/CN=nvshare-test-admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
}


def make(folder: Path) -> None:
    """Everything the components need, in one folder readable by root only."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7"),
        *("-subj", "/CN=nvshare-test-ca", "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt")),
    )
    names = ["DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc", "DNS:localhost"]
    names += [f"IP:{address}" for address in (SERVICE_IP, "127.0.0.1", node_ip())]
    _certificate(folder, "apiserver", "/CN=kube-apiserver", ",".join(names))
    for name, subject in CLIENTS.items():
        _certificate(folder, name, subject, None)
        (folder / f"{name}.kubeconfig").write_text(json.dumps(_kubeconfig(folder, name), indent=1))
    _openssl("genrsa", "-out", str(folder / "sa.key"), "2048")
    _openssl("rsa", "-in", str(folder / "sa.key"), "-pubout", "-out", str(folder / "sa.pub"))


def _certificate(folder: Path, name: str, subject: str, names: str | None) -> None:
    key, request, certificate = (str(folder / f"{name}.{kind}") for kind in ("key", "csr", "crt"))
    extensions = folder / f"{name}.ext"
    usage = "serverAuth" if names else "clientAuth"
    extensions.write_text(f"extendedKeyUsage={usage}\n" + (f"subjectAltName={names}\n" if names else ""))
    _openssl(
        *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-subj", subject, "-keyout", key, "-out", request),
    )
    _openssl(
        *("x509", "-req", "-in", request, "-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key")),
        *("-CAcreateserial", "-days", "7", "-extfile", str(extensions), "-out", certificate),
    )


def _kubeconfig(folder: Path, name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [
            {
                "name": "test",
                "cluster": {"server": f"https://{SERVICE_IP}:443", "certificate-authority": str(folder / "ca.crt")},
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate": str(folder / f"{name}.crt"),
                    "client-key": str(folder / f"{name}.key"),
                },
            }
        ],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
    }


def _openssl(*args: str) -> None:
    done = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {args[0]}: {done.stderr}")
