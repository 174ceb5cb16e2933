"""Locks on several GPUs that are granted and dropped together.

What belongs here: which processes form a gang, and when all of its locks can be granted. What does not: decisions about
one GPU (`core.queue`)."""
