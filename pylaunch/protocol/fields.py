"""Dataclasses built from JSON objects, each field checked against its annotation.

Annotations are read as text: plain types, `list[…]`, `tuple[…, ...]`, `dict[str, …]`, dataclasses, and each of them
with `| None`.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, TypeVar

from pylaunch.base.dataclass import MISSING, fields

OR_NONE = " | None"
REPEATED = ", ..."

T = TypeVar("T")

LARGEST = 1 << 62
"""Magnitude of a number that a system call or a sum of times can still take."""

_PLAIN: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


class WireError(Exception):
    """Line that is not a message of this protocol."""


def read(cls: type[T], body: dict[str, Any], parts: Mapping[str, type[Any] | list[Any]]) -> T:
    """Build a `cls` from a JSON object; `parts` has the dataclasses of its fields by name, or the values
    that numbers stand for. Ignores unknown fields.

    Raises WireError for a field that is missing or of the wrong type.
    """
    values = {}
    for item in fields(cls):  # type: ignore[arg-type]
        if item.name in body:
            values[item.name] = checked(str(item.type), body[item.name], f"{cls.__name__}.{item.name}", parts)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise WireError(f"{cls.__name__} without {item.name!r}")
    return cls(**values)


def checked(kind: str, value: Any, where: str, parts: Mapping[str, type[Any] | list[Any]]) -> Any:
    """Return `value` if it has the type that the annotation `kind` names. Raises WireError."""
    if kind.endswith(OR_NONE):
        return None if value is None else checked(kind[: -len(OR_NONE)], value, where, parts)
    outer, _, inner = kind.rstrip("]").partition("[")
    if outer == "list" and isinstance(value, list):
        return [checked(inner, each, where, parts) for each in value]
    if outer == "tuple" and isinstance(value, list):
        return tuple([checked(inner[: -len(REPEATED)], each, where, parts) for each in value])
    if outer == "dict" and isinstance(value, dict):
        return {name: checked(inner.partition(", ")[2], each, where, parts) for name, each in value.items()}
    part = parts.get(kind)
    if isinstance(part, list) and type(value) is int and 0 <= value < len(part):
        return part[value]
    if isinstance(part, type) and isinstance(value, dict):
        return read(part, value, parts)
    if isinstance(value, _PLAIN.get(kind, ())) and (kind == "bool" or not isinstance(value, bool)):
        if isinstance(value, (int, float)) and abs(value) > LARGEST:
            raise WireError(f"{where}: {str(value)[:40]} is too large")
        return value
    raise WireError(f"{where}: expected {kind}, got {excerpt(json.dumps(value).encode())}")


def excerpt(line: bytes) -> str:
    """Return the beginning of `line`, for an error message."""
    text = line[:200].decode("utf-8", "replace").rstrip("\n")
    return repr(text + ("…" if len(line) > 200 else ""))
