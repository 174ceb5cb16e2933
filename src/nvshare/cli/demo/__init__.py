"""`nvshare demo`: programs share a simulated GPU, with a table and a picture of the result.

What belongs here: the plan, the processes and the report of the demonstration. What does not: how a program is
started (`run`), and the simulated GPU (`nvshare.simgpu`).
"""
