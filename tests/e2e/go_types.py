"""Fields of Go structs, as their JSON names: enough of Go to find a field of a document that a struct does not have."""

import re
from typing import Any

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r'^\t(?:\w+ +)?([\w.*\[\]]+) +`json:"([^",]*)[^"]*"`', re.MULTILINE)


def unknown_fields(source: str, struct: str, document: Any) -> list[str]:
    """The paths of the fields of a document that the struct of a Go source does not have. What is of a type of another
    package, or a map, is not looked into."""
    return _unknown(dict(_STRUCT.findall(source)), struct, document, "")


def _unknown(structs: dict[str, str], struct: str, document: Any, path: str) -> list[str]:
    if isinstance(document, list):
        return [found for item in document for found in _unknown(structs, struct, item, path)]
    if struct not in structs or not isinstance(document, dict):
        return []
    fields = _fields(structs, struct)
    unknown = []
    for name, value in document.items():
        where = f"{path}.{name}".lstrip(".")
        unknown += _unknown(structs, fields[name], value, where) if name in fields else [where]
    return unknown


def _fields(structs: dict[str, str], struct: str) -> dict[str, str]:
    """By JSON name: the type without pointers and lists. A field without a name stands for the fields of its type."""
    found: dict[str, str] = {}
    for kind, name in _FIELD.findall(structs.get(struct, "")):
        element = kind.lstrip("*[]")
        found |= {name: element} if name else _fields(structs, element)
    return found
