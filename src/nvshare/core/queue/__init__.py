"""The clients that wait for one GPU: their order, which holders must leave for them, and which of them get a lock.

What belongs here: decisions about waiting clients, and what these are told. What does not: the change of a client's
state that follows (`core.turns`), and how clients on several GPUs wait together (`core.gangs`)."""
