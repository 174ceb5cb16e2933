"""The simulated GPU seen from Python: its settings, its trace, its events.

What belongs here: finding the simulated libraries, turning settings into a child's environment, reading what the
simulator wrote. What does not: scheduling, sharing, anything a real GPU would need.
"""
