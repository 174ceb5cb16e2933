"""Whole worlds from one seed: the core, client processes, the network between them, clocks, and everything that fails."""
