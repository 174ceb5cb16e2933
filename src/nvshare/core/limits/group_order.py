"""What the operator can order for a group besides its memory limit."""

from nvshare.record import Record


class Order(Record, frozen=True):
    """What the operator has ordered for a group (core.orders)."""

    weight: int | None = None
    priority: int | None = None
    is_paused: bool = False
    core_limit: int | None = None


NO_ORDER = Order()
