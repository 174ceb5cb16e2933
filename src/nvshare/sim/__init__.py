"""A discrete-event simulator around the very core the daemon runs."""
