"""What the container runtime adds to a container that has a claim."""

import json

from nvshare.claim_file import PreparedClaim
from nvshare.dra.cdi import CdiOptions, content, device_ids, file_name, uid_of
from nvshare.plugin.container import Injection

CLAIM = PreparedClaim(uid="u-1", namespace="team", name="c", devices=(), limits={})


def edits(claim: PreparedClaim, options: CdiOptions) -> tuple[list[str], dict[str, str]]:
    made = json.loads(content(claim, options))
    (device,) = made["devices"]
    assert (made["kind"], device["name"]) == ("nvshare.com/claim", claim.uid)
    mounts = device["containerEdits"]["mounts"]
    assert all("ro" in mount["options"] for mount in mounts)
    return device["containerEdits"]["env"], {mount["containerPath"]: mount["hostPath"] for mount in mounts}


def test_the_library_is_loaded_without_touching_the_pods_own_ld_preload() -> None:
    environment, mounts = edits(CLAIM, CdiOptions(preallocate=True))
    assert environment == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert mounts == {
        "/var/run/nvshare": "/var/run/nvshare",
        "/usr/lib/nvshare": "/var/run/nvshare/lib",
        "/etc/ld.so.preload": "/var/run/nvshare/lib/ld.so.preload",
    }


def test_with_injection_env_the_library_is_in_ld_preload() -> None:
    options = CdiOptions(injection=Injection.ENV, host_run_dir="/run/other", preallocate=True)
    environment, mounts = edits(CLAIM, options)
    assert environment == ["NVIDIA_VISIBLE_DEVICES=void", "LD_PRELOAD=/usr/lib/nvshare/libnvshare.so"]
    assert mounts == {"/var/run/nvshare": "/run/other", "/usr/lib/nvshare": "/run/other/lib"}


def test_frameworks_are_told_to_allocate_as_they_need() -> None:
    environment, _ = edits(CLAIM, CdiOptions())
    assert environment[1:] == ["TF_FORCE_GPU_ALLOW_GROWTH=true", "XLA_PYTHON_CLIENT_PREALLOCATE=false"]


def test_the_memory_mode_of_the_claim_is_in_the_environment() -> None:
    claim = PreparedClaim(uid="u-1", namespace="team", name="c", devices=(), limits={}, memory_mode="native")
    environment, _ = edits(claim, CdiOptions())
    assert environment[-1] == "NVSHARE_MEMORY_MODE=native"


def test_a_device_is_the_gpu_and_the_claim() -> None:
    assert device_ids(CLAIM, "GPU-a", CdiOptions()) == ["nvidia.com/gpu=GPU-a", "nvshare.com/claim=u-1"]


def test_our_files_are_known_by_their_names() -> None:
    assert uid_of(file_name("u-1")) == "u-1"
    assert uid_of("nvidia.json") is None
    assert uid_of("nvshare.com-claim_u-1.json.123") is None
