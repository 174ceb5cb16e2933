"""The scheduling simulator: a discrete-event simulation around the core that the daemon runs.

What belongs here: models of cards and programs, random mixes of jobs, worlds with faults, the replay of a journal. What
does not: a GPU that real programs can use; that is `nvshare.simgpu` and `native/simgpu`.
"""
