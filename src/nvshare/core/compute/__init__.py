"""GPU time: how much each client has used, and how it is shared by core limits and weights.

What belongs here: measuring, billing, and which clients are held back. What does not: where limits and weights come
from (`core.limits`, `core.orders`), and the order of the queue (`core.queue.policies`)."""
