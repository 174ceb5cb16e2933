"""Events of Kubernetes from the words of a story."""

from core.words import parse_size
from nvshare.core import events as ev


def options_of(text: str) -> tuple[dict[str, str], set[str]]:
    words = text.split()
    return dict(word.split("=", 1) for word in words if "=" in word), {word for word in words if "=" not in word}


def size_or_none(options: dict[str, str], key: str) -> int | None:
    return parse_size(options[key]) if key in options else None


def pod_changed(pod: str, rest: str) -> ev.PodChanged:
    options, _ = options_of(rest)
    keeps_limit = options.get("limit") == "unreadable"
    return ev.PodChanged(
        pod=pod,
        label=f"team/{pod}",
        limit=None if keeps_limit else size_or_none(options, "limit"),
        spec_limit=size_or_none(options, "spec"),
        container_limits=tuple(parse_size(size) for size in options.get("containers", "").split(",") if size),
        priority=int(options["priority"]) if "priority" in options else None,
        weight=int(options["weight"]) if "weight" in options else None,
        keeps_limit=keeps_limit,
        shrinks=options["shrinks"] == "true" if "shrinks" in options else None,
        is_paused=options["paused"] == "true" if "paused" in options else None,
        core_limit=int(options["core-limit"]) if "core-limit" in options else None,
        spec_core_limit=int(options["spec-core-limit"]) if "spec-core-limit" in options else None,
        container_core_limits=tuple(int(it) for it in options.get("container-core-limits", "").split(",") if it),
        claims=tuple(f"team/{name}" for name in options.get("claims", "").split(",") if name),
    )


def claim_prepared(name: str, rest: str) -> ev.ClaimPrepared:
    options, _ = options_of(rest)
    settings = {key: int(options.pop(key)) for key in ("priority", "weight") if key in options}
    core_limits = {gpu: int(percent) for gpu, percent in _pairs(options.pop("core-limits", ""))}
    limits = {gpu: parse_size(size) for gpu, size in options.items()}
    return ev.ClaimPrepared(uid=f"uid-{name}", label=f"team/{name}", limits=limits, core_limits=core_limits, **settings)


def _pairs(text: str) -> list[list[str]]:
    """Of `g0:30,g1:40`."""
    return [pair.split(":") for pair in text.split(",") if pair]
