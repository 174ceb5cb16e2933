"""TensorFlow and JAX allocate what they need, unless the user says otherwise."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nvshare.cli.run.docker_args import arguments
from nvshare.cli.run.environment import ProgramSettings, on_simulated_gpu, shared
from nvshare.framework_settings import evictable_setting, unswappable_settings

Front = Callable[..., subprocess.CompletedProcess[str]]

AS_NEEDED = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def made(environment: dict[str, str], settings: ProgramSettings) -> dict[str, str]:
    all_variables = shared(environment, library=Path("/lib/libnvshare.so"), socket="/s", settings=settings)
    return {name: value for name, value in all_variables.items() if name in AS_NEEDED}


def test_both_are_told_to_allocate_as_needed() -> None:
    assert made({}, ProgramSettings()) == AS_NEEDED


def test_what_the_user_has_set_stays() -> None:
    kept = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "TF_FORCE_GPU_ALLOW_GROWTH": ""}
    assert made(kept, ProgramSettings()) == kept


def test_preallocate_leaves_both_alone() -> None:
    assert made({}, ProgramSettings(preallocate=True)) == {}


def test_docker_args_say_the_same() -> None:
    words = [f"{name}={value}" for name, value in AS_NEEDED.items()]
    said = arguments(Path("/lib/libnvshare.so"), Path("/run/s.sock"), ProgramSettings(), "all")
    assert [word for word in said if word in words] == words
    said = arguments(Path("/lib/libnvshare.so"), Path("/run/s.sock"), ProgramSettings(preallocate=True), "all")
    assert not set(words) & set(said)


def test_jax_is_told_to_use_cuda_on_a_simulated_gpu_and_nowhere_else() -> None:
    assert on_simulated_gpu({"A": "b"}) == {"A": "b", "JAX_PLATFORMS": "cuda"}
    for chosen in ({"JAX_PLATFORMS": "cpu"}, {"JAX_PLATFORM_NAME": "cpu"}, {"JAX_PLATFORMS": ""}):
        assert on_simulated_gpu(chosen) == chosen
    assert "JAX_PLATFORMS" not in shared({}, library=Path("/l"), socket="/s", settings=ProgramSettings())


@pytest.mark.parametrize("how", [("--no-share",), ()])
def test_a_program_on_a_simulated_gpu_finds_the_platform_of_jax(nvshare: Front, how: tuple[str, ...]) -> None:
    program = ("--", "printenv", "JAX_PLATFORMS")
    assert nvshare("run", "--sim-gpus", "1", *how, *program).stdout == "cuda\n"
    assert nvshare("run", "--sim-gpus", "1", *how, *program, JAX_PLATFORMS="cuda,cpu").stdout == "cuda,cpu\n"


def test_allocators_whose_memory_cannot_be_evicted_are_recognised() -> None:
    segments = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True"}
    assert unswappable_settings(segments) == [f"{name}={value}" for name, value in segments.items()]
    assert unswappable_settings({"TF_GPU_ALLOCATOR": "cuda_malloc_async"}) == ["TF_GPU_ALLOCATOR=cuda_malloc_async"]
    assert unswappable_settings({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}) == []


def test_what_to_set_instead_keeps_the_rest() -> None:
    segments = "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True"
    assert evictable_setting(segments) == "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"
    assert evictable_setting("TF_GPU_ALLOCATOR=cuda_malloc_async") == "TF_GPU_ALLOCATOR="


def test_run_names_a_setting_that_prevents_eviction_in_one_line(nvshare: Front) -> None:
    result = nvshare("run", "--sim-gpus", "1", "--", "true", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    (line,) = result.stderr.splitlines()
    assert line.startswith("nvshare: warning: PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync: this memory cannot be")
    assert line.endswith("start it with PYTORCH_CUDA_ALLOC_CONF=")
