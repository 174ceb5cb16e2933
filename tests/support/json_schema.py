"""Checks a JSON document by our JSON Schema."""

from typing import Any

KINDS: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}


def violations(value: Any, rule: dict[str, Any], whole: dict[str, Any], at: str = "$") -> list[str]:
    """Where a document breaks the schema; as much of JSON Schema as ours uses."""
    if "$ref" in rule:
        return violations(value, whole["$defs"][rule["$ref"].rpartition("/")[2]], whole, at)
    if "anyOf" in rule:
        return [] if any(not violations(value, one, whole, at) for one in rule["anyOf"]) else [at]
    if "const" in rule:
        return [] if value == rule["const"] else [at]
    if "enum" in rule:
        return [] if value in rule["enum"] else [at]
    if rule["type"] == "array":
        return [
            bad for number, one in enumerate(value) for bad in violations(one, rule["items"], whole, f"{at}[{number}]")
        ]
    if rule["type"] == "object":
        odd = set(rule["required"]) ^ set(value)
        parts = (
            violations(value[name], part, whole, f"{at}.{name}")
            for name, part in rule["properties"].items()
            if name in value
        )
        return [f"{at}.{name}" for name in sorted(odd)] + [bad for part in parts for bad in part]
    is_flag = isinstance(value, bool) and rule["type"] != "boolean"
    return [] if isinstance(value, KINDS[rule["type"]]) and not is_flag else [at]
