"""Variables that keep frameworks from allocating most of a GPU when they start.

TensorFlow takes nearly all memory that is free, JAX three quarters of it, so two such programs do not fit together even
if they use little. With these variables they allocate what they need."""

ALLOCATE_AS_NEEDED = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
