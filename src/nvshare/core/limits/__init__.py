"""How much GPU memory each group of processes may allocate.

What belongs here: which limit a group has, and how its processes share it. What does not: which clients may
run (`core.turns` and the parts around it), and where limits come from (`scheduler.sources`, `scheduler.operator`).
"""
