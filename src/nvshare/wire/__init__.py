"""The protocol between the scheduler and libnvshare: messages and their bytes. Pure.

What belongs here: layout and codec of messages. What does not: what a message means to the core.
"""
