"""Variables of frameworks: those that keep them from allocating most of a GPU when they start, those that make them use
memory that cannot be evicted, and those that they need on a simulated GPU.

TensorFlow takes nearly all memory that is free, JAX three quarters of it, so two such programs do not fit together even
if they use little. With these variables they allocate what they need."""

from collections.abc import Mapping

ALLOCATE_AS_NEEDED = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}

_UNSWAPPABLE = (
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:true"),
    ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudamallocasync"),
    ("PYTORCH_ALLOC_CONF", "expandable_segments:true"),
    ("PYTORCH_ALLOC_CONF", "backend:cudamallocasync"),
    ("TF_GPU_ALLOCATOR", "cuda_malloc_async"),
)


def for_simulated_gpu(environment: Mapping[str, str]) -> dict[str, str]:
    """What frameworks need on a simulated GPU, where the user has not decided it: without it JAX looks for files of
    NVIDIA's kernel driver, finds none, and computes on the CPU without a message."""
    is_decided = "JAX_PLATFORMS" in environment or "JAX_PLATFORM_NAME" in environment
    return {} if is_decided else {"JAX_PLATFORMS": "cuda"}


def unswappable_settings(environment: Mapping[str, str]) -> list[str]:
    """The variables in it with which a framework allocates memory that cannot be evicted."""
    found = {name: environment[name] for name, word in _UNSWAPPABLE if word in environment.get(name, "").lower()}
    return [f"{name}={value}" for name, value in found.items()]


def evictable_setting(setting: str) -> str:
    """What to set instead: the same without the words that make memory unevictable."""
    name, _, value = setting.partition("=")
    unwanted = {word for of, word in _UNSWAPPABLE if of == name}
    return f"{name}={','.join(word for word in value.split(',') if word.strip().lower() not in unwanted)}"
