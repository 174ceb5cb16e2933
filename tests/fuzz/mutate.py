"""Changes for inputs that are JSON, in lines: random bytes rarely stay JSON, and what lies behind the parser is the
interesting part. Pure: random numbers come from the caller."""

import json
from random import Random
from typing import Any

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        7,
        0.5,
        1e308,
        float("nan"),
        1 << 33,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        1 << 64,
    ),
    *("", "x", "GPU-1", "8Gi", "-1", "a/b", "\ud800", "\0", "9" * 30, [], {}, [[]], {"": None}),
)


def changed(data: bytes, chance: Random) -> bytes | None:
    """The lines with a few changes, each still JSON; None if there is no line to change."""
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(lines))
        match chance.randrange(8):
            case 0:
                lines.insert(at, lines[chance.randrange(len(lines))])
            case 1 if len(lines) > 1:
                del lines[at]
            case _:
                try:
                    tree = json.loads(lines[at])
                    lines[at] = json.dumps(_in_tree(tree, chance)).encode()
                except (ValueError, RecursionError):
                    continue
    after = b"\n".join(lines)
    return after if after != data else None


def _in_tree(tree: Any, chance: Random) -> Any:
    """Somewhere below, a value becomes another one, or a key another's."""
    if not isinstance(tree, (dict, list)) or not tree or chance.randrange(6) == 0:
        return _value(tree, chance)
    if isinstance(tree, list):
        at = chance.randrange(len(tree))
        return [*tree[:at], _in_tree(tree[at], chance), *tree[at + (chance.randrange(4) > 0) :]]
    key = chance.choice(list(tree))
    match chance.randrange(10):
        case 0:
            return {name: value for name, value in tree.items() if name != key}
        case 1:
            return {**tree, key: tree[chance.choice(list(tree))]}
        case _:
            return {**tree, key: _in_tree(tree[key], chance)}


def _value(before: Any, chance: Random) -> Any:
    if isinstance(before, int) and chance.randrange(2):
        return before + chance.choice((-1, 1, 1 << 30, -(1 << 30))) * chance.choice((1, 1, 2, 1000))
    return chance.choice(VALUES)
