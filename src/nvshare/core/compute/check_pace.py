"""How far apart checks of debts and leads are (compute.compute_shares). A check visits all clients of the GPU."""

from nvshare.core.model import MILLISECOND

LEAST_STEP_NS = 10 * MILLISECOND
MOST_STEP_NS = 500 * MILLISECOND
"""The shortest and the longest time until leads are checked again."""

MOST_GROUPS = 256
"""How many groups with core limits are checked at once. If there are more: those whose last check was longest ago."""

CROWD = 50
CLIENT_PAUSE_NS, GROUP_PAUSE_NS = MILLISECOND // 20, 3 * MILLISECOND // 20
"""If there are more than CROWD clients, checks are this far apart for each client and each group that is checked,
whatever happens meanwhile: they take about a tenth of the scheduler's time."""


def crowd_pause_ns(clients: int, groups: int) -> int:
    """After which time the next check is allowed, if there are so many clients and groups with core limits; 0 if the
    clients are few."""
    if clients <= CROWD:
        return 0
    return max(LEAST_STEP_NS, clients * CLIENT_PAUSE_NS + min(groups, MOST_GROUPS) * GROUP_PAUSE_NS)
