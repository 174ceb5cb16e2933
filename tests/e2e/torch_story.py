"""Opt-in: PyTorch in pods, by the very lines of the users' walk-through. NVSHARE_E2E_TORCH names a virtual environment
that has PyTorch 2.9 (+cu128); it is lent to the pods instead of building an image of seven gigabytes."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.kit import IMAGE, SIM_DIR, annotate, execute, pod, pods, wait_for_log

VENV = os.environ.get("NVSHARE_E2E_TORCH", "")
ALLOCATE = (
    "import torch; print('Allocating 2Gi...');"
    " x = torch.empty(512*1024*1024, dtype=torch.float32, device='cuda'); print('Success')"
)
pytestmark = pytest.mark.skipif(not VENV, reason="NVSHARE_E2E_TORCH names no virtual environment with PyTorch")


def torch_pod(name: str) -> dict[str, Any]:
    """A pod with the lent PyTorch. The simulated driver has its own CUDA runtime, so the pod preloads that, too."""
    base = subprocess.run(
        [f"{VENV}/bin/python", "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lent = [VENV, base, str(SIM_DIR / "lib")]
    preload = f"/usr/lib/nvshare/libnvshare.so:{SIM_DIR}/lib/libcudart.so.12"
    made = pod(name, image=IMAGE, env={"PATH": f"{VENV}/bin:/usr/bin:/bin", "LD_PRELOAD": preload})
    made["spec"]["volumes"] = [
        {"name": f"lent-{at}", "hostPath": {"path": path, "type": "Directory"}} for at, path in enumerate(lent)
    ]
    made["spec"]["containers"][0]["volumeMounts"] = [
        {"name": f"lent-{at}", "mountPath": path, "readOnly": True} for at, path in enumerate(lent)
    ]
    return made


def test_the_walkthroughs_own_lines_run_in_two_pods_with_limits_of_their_own() -> None:
    assert Path(VENV).is_dir()
    with pods(torch_pod("pod-a"), torch_pod("pod-b")):
        annotate("pod-a", "1Gi")
        annotate("pod-b", "3Gi")
        wait_for_log(r"pod default/pod-b: 0 -> 3221225472")
        assert "out of memory" in execute("pod-a", "python3", "-c", ALLOCATE, code=1)
        assert execute("pod-b", "python3", "-c", ALLOCATE).splitlines()[-1] == "Success"
        annotate("pod-a", "4Gi")
        wait_for_log(r"pod default/pod-a: 1073741824 -> 4294967296")
        assert execute("pod-a", "python3", "-c", ALLOCATE).splitlines()[-1] == "Success"
