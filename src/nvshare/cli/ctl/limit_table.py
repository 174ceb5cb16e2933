"""What `nvsharectl limits` shows. Pure: values in, text out."""

from collections.abc import Iterable

from nvshare.cli.ctl.text_table import table
from nvshare.core.snapshots.limit_snapshot import LimitSnapshot
from nvshare.quantity import size


def limit_table(limits: Iterable[LimitSnapshot], width: int | None = None) -> str:
    """The limits of all groups; in `width` columns if it is given."""
    limits = list(limits)
    has_core = any(one.core_source for one in limits)
    rows = [[one.group, one.label, *_limit_cells(one, has_core=has_core), str(one.clients)] for one in limits]
    head = ["GROUP", "WHO", "LIMIT", "FROM", *(("CORE", "CORE FROM") if has_core else ()), "CLIENTS"]
    drop = ("CLIENTS", "CORE FROM", "FROM")
    return table(head, rows, width=width, drop=drop, cut=("GROUP", "WHO")) if rows else "No limits."


def _limit_cells(one: LimitSnapshot, *, has_core: bool) -> list[str]:
    memory = [size(one.limit) if one.limit else "none", one.source] if one.source else ["-", "-"]
    core = [f"{one.core_limit_percent}%", one.core_source] if one.core_source else ["-", "-"]
    return memory + core if has_core else memory
