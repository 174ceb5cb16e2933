"""Which client holds a lock of one GPU, from the grant to the release.

What belongs here: the states of a client at a GPU, its lock, the timers of a turn. What does not: which client should
hold a lock (`core.queue`), and how long a quantum lasts (`core.modes`)."""
