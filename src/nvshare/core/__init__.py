"""The scheduling machine. Pure: no clock, no socket, no log; time comes in as an argument."""
