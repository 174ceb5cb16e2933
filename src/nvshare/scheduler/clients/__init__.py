"""The clients of the scheduler: their socket, their connections, who they are, and how many may connect.

What belongs here: everything between a client process and the engine. What does not: the operator's requests
(`operator`), and decisions about locks and memory (`core`).
"""
