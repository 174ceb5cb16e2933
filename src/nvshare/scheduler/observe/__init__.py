"""What the daemon reports about itself: each step of the core in the journal, the log and the metrics.

What belongs here: readers of steps and snapshots. What does not: anything that changes the state of the core, and how
the text is served (`http`, `operator`).
"""
