"""`nvshare simulate`: the command line of the scheduling simulator.

What belongs here: reading options and files, printing results. What does not: the simulation (`nvshare.schedsim`).
"""
