"""The console scripts of both Kubernetes programs, without the packages of their extra."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "program"),
    [("nvshare.plugin.entry", "nvshare-device-plugin"), ("nvshare.dra.entry", "nvshare-dra-driver")],
)
def test_without_grpc_a_program_names_the_extra_to_install(module: str, program: str) -> None:
    script = f"import sys; sys.modules['grpc'] = None; from {module} import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{program}: grpc is not installed; run pip install 'nvshare[kubernetes]'\n"
