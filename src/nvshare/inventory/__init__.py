"""Which GPUs there are, and what NVML tells about them.

What belongs here: calls to NVML and their results as values. What does not: what follows from them (`scheduler`).
"""
