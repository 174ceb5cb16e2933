"""The scheduler's state machine. Pure: no clock, no socket, no log; time is an argument.

What belongs here: every decision about locks, turns, memory limits and budgets. What does not: the protocol (`wire`),
and everything that performs a decision (`scheduler`).
"""
