"""Kubelet's API for DRA drivers, generated from dra.proto by tools/plugin_api.py; not edited by hand."""
