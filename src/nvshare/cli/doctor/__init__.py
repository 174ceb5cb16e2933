"""`nvshare doctor`: checks whether this machine is ready, and names the remedy if it is not.

What belongs here: checks. What does not: repairs; the doctor changes nothing.
"""
