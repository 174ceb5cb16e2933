"""Kubelet's device plugin API, generated from deviceplugin.proto by tools/plugin_api.py; not edited by hand."""
