"""Which GPUs there are, and what NVML says of them."""
