"""`nvshare run` and `nvshare docker-args`: start a program so that it shares its GPU.

What belongs here: what a started program needs (environment, library, private scheduler, simulated GPU). `demo` and
`doctor` start programs the same way and use it too. What does not: what the operator asks a scheduler (`ctl`).
"""
