"""Whole worlds from one seed: the core, client processes, the network between them, clocks, and all that can fail."""
