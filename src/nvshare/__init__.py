"""nvshare: several CUDA programs share one GPU, each as if it had the whole card."""

__version__ = "0.1.0"
