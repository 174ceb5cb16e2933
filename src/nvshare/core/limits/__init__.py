"""How much GPU memory each group of processes may allocate, and which core limit it has.

What belongs here: which limits a group has, and how its processes share the memory limit. What does not: what follows
from a core limit (`core.compute`), which clients may run (`core.queue`), and where limits come from
(`scheduler.sources`, `scheduler.operator`).
"""
