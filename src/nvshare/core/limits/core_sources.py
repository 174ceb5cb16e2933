"""Which sources name the core limit of a group, to be shown. `Group.core_limit_on` says which one counts."""

from nvshare.core.limits.groups import Group, Source

WHOLE = 100
"""Percent: no limit."""


def core_limit_named(group: Group) -> tuple[Source, int] | None:
    """The source of the core limit that counts, and its percent, on the GPU on which it is highest; None: no source
    names one."""
    sources: tuple[tuple[Source, int | None], ...] = (
        ("annotation", group.core_limit),
        ("operator", group.order.core_limit),
        ("environment", group.spec_core_limit),
    )
    said = next(((source, percent or WHOLE) for source, percent in sources if percent is not None), None)
    counts = max(group.core_limit_on(gpu) or WHOLE for gpu in {*group.limits, *group.claims.by_gpu()} or {""})
    if counts == WHOLE or (said is not None and said[1] == counts):
        return said
    return ("environment" if group.core_wishes[counts] > 0 else "claim"), counts
