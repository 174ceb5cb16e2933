"""The daemon around one `core.Node`: `main` builds it, `engine` feeds events to the core and performs its actions.

What belongs here: sockets, processes, time, files and the order in which the daemon starts and ends. What does not: any
decision about which client runs or how much memory it may have (`core`), and bytes of the protocol (`wire`).
"""
