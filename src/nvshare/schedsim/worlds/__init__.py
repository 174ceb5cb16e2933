"""Whole worlds from one seed: the core, client processes, the network between them, clocks, and all that can fail.

What belongs here: models of a machine whose parts fail, and the laws that must hold nevertheless. What does not: how
long programs take (`schedsim.machine`), and faults of real processes (`tools/chaos.py`)."""
