"""Dataclasses read from JSON objects, each field checked against its annotation."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, Mapping, Tuple, Type, TypeVar

T = TypeVar("T")
_PLAIN: Dict[str, Tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


class WireError(Exception):
    """A line that is not a message of this protocol."""


def read(cls: Type[T], body: Dict[str, Any], parts: Mapping[str, Type[Any]]) -> T:
    """A `cls` from a JSON object; dataclasses within it are those of `parts`, by name. Unknown fields are ignored.

    Raises WireError for a field missing or of the wrong kind.
    """
    values = {}
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]
        if item.name in body:
            values[item.name] = _checked(str(item.type), body[item.name], f"{cls.__name__}.{item.name}", parts)
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise WireError(f"{cls.__name__} without {item.name!r}")
    return cls(**values)


def _checked(kind: str, value: Any, where: str, parts: Mapping[str, Type[Any]]) -> Any:
    """`value`, if it is of the kind that the annotation `kind` names."""
    outer, _, inner = kind.rstrip("]").partition("[")
    if outer == "Optional":
        return None if value is None else _checked(kind[len("Optional[") : -1], value, where, parts)
    if outer == "List" and isinstance(value, list):
        return [_checked(inner, each, where, parts) for each in value]
    if outer == "Dict" and isinstance(value, dict):
        return {name: _checked(inner.partition(", ")[2], each, where, parts) for name, each in value.items()}
    if kind in parts and isinstance(value, dict):
        return read(parts[kind], value, parts)
    if isinstance(value, _PLAIN.get(kind, ())) and (kind == "bool" or not isinstance(value, bool)):
        return value
    raise WireError(f"{where}: expected {kind}, got {excerpt(json.dumps(value).encode())}")


def excerpt(line: bytes) -> str:
    """The beginning of `line`, for a complaint about it."""
    text = line[:200].decode("utf-8", "replace").rstrip("\n")
    return repr(text + ("…" if len(line) > 200 else ""))
