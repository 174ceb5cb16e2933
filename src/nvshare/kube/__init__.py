"""Kubernetes: annotations (pure parsing), the pod watch, events on pods."""
