"""The operator tools: `nvsharectl` and `kubectl nvshare`.

What belongs here: commands that ask a running scheduler, and how its answers are shown. What does not: the connection
itself (`cli.operator_client`), and starting programs (`run`).
"""
