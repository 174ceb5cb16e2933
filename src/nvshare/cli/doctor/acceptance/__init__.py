"""The acceptance kit, `nvshare doctor --gpu`: what a person with a card runs once and can send to the project.

A check measures in a process of its own (`child`), within a time limit (`runner`). Judging what it found is pure
(`judgement`), by what the simulated card predicts (`prediction`). Decision 20 says what the kit may do to a card that
others use.

What belongs here: measurements on a GPU and their judgement. What does not: checks of the machine without a GPU
(`nvshare.cli.doctor.checks`), and benchmarks of nvshare itself (`bench/`).
"""
