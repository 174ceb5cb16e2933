"""The operator: requests of nvsharectl, and the limits that the operator set, kept in a file.

What belongs here: the server side of `nvshare.admin`. What does not: the client side (`cli.operator_client`) and HTTP,
which can only read (`http`).
"""
