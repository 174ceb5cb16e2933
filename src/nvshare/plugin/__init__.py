"""The kubelet device plugin: slots, containers, registration."""
