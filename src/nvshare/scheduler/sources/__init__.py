"""Where the scheduler learns about the machine and the cluster: NVML, the host's memory and its cgroups, the claims
that the DRA driver prepared, and the Kubernetes API.

What belongs here: tasks that turn what they read into events for the engine. What does not: the calls to NVML and to
the API server (`nvshare.inventory`, `nvshare.kube`).
"""
