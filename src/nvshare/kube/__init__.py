"""Kubernetes: annotations (pure parsing), the API client, the pod watch, events on pods.

What belongs here: everything that speaks to the API server. What does not: kubelet's device plugin API (`plugin`).
"""
