"""Chaos with real processes."""
