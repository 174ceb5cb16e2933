"""The memory of one GPU and of its host: which clients fit together, and what moves at a switch.

What belongs here: what counts of a client's reports, the plan of the card, moves, and which memory stays on the host
because of a lowered limit. What does not: limits and budgets of groups (`core.limits`)."""
