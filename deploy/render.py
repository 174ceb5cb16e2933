"""Renders the plain manifests from the chart, or checks that they are not stale.

    python deploy/render.py           write deploy/manifests/*.yaml and deploy/manifests/dra/*.yaml
    python deploy/render.py --check   exit 1 and name the files that differ

Needs helm: on the PATH, or built by tools/cluster/build-helm.sh, or named by HELM."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHART = HERE / "chart"
MANIFESTS = HERE / "manifests"
NAMESPACE = "nvshare-system"
TEMPLATES = ("namespace", "quota", "scheduler-rbac", "scheduler", "device-plugin", "networkpolicy")
DRA_TEMPLATES = ("dra-rbac", "dra-driver", "dra-device-class")
DRA_SETTINGS = ("draDriver.enabled=true", "devicePlugin.enabled=false")
KUBERNETES = "1.34.4"


def find_helm() -> str | None:
    """The path of helm, or None."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nvshare-cluster"
    built = Path(os.environ.get("CLUSTER_TOOLS", Path(os.environ.get("CLUSTER_CACHE", cache)) / "bin")) / "helm"
    return os.environ.get("HELM") or shutil.which("helm") or (str(built) if built.exists() else None)


def template(helm: str, *settings: str, only: str | None = None) -> str:
    """The chart's output for some `name=value` settings; raises CalledProcessError with the message of helm."""
    command = [helm, "template", "nvshare", str(CHART), "--namespace", NAMESPACE, "--kube-version", KUBERNETES]
    for setting in settings:
        command += ["--set", setting]
    if only is not None:
        command += ["--show-only", f"templates/{only}.yaml"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603


def render(helm: str) -> dict[Path, str]:
    """Every manifest's path and text."""
    texts = {MANIFESTS / f"{name}.yaml": template(helm, "namespace.create=true", only=name) for name in TEMPLATES}
    texts |= {MANIFESTS / "dra" / f"{name}.yaml": template(helm, *DRA_SETTINGS, only=name) for name in DRA_TEMPLATES}
    return {path: _as_manifest(text) for path, text in texts.items()}


def _as_manifest(text: str) -> str:
    kept = [line for line in text.splitlines() if not line.startswith("# Source:") and "managed-by" not in line]
    header = "# Rendered from deploy/chart by deploy/render.py; change the chart, not this file."
    return "\n".join([header, *kept]) + "\n"


def main() -> None:
    """Write, or compare."""
    helm = find_helm()
    if helm is None:
        sys.exit("render: helm is needed; tools/cluster/build-helm.sh builds it")
    fresh = render(helm)
    if "--check" not in sys.argv[1:]:
        for path, text in fresh.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return
    stale = [path.name for path, text in fresh.items() if not path.exists() or path.read_text() != text]
    stale += [path.name for path in MANIFESTS.rglob("*.yaml") if path not in fresh]
    if stale:
        sys.exit(f"render: stale, run python deploy/render.py: {', '.join(stale)}")


if __name__ == "__main__":
    main()
