"""Dataclasses built from JSON objects, each field checked against its annotation.

Annotations are read as text: plain types, `list[…]`, `tuple[…, ...]`, `dict[str, …]`, dataclasses, and each of them
with `| None`.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, TypeVar

from pylaunch.base.dataclass import MISSING, fields
from pylaunch.protocol.examination import (
    MOST_COLLECTIVES,
    MOST_GROUP_RANKS,
    MOST_GROUPS,
    MOST_SITE_FRAMES,
    MOST_STACK_FRAMES,
    MOST_TENSORS,
    MOST_THREADS,
)

OR_NONE = " | None"
REPEATED = ", ..."

T = TypeVar("T")

LARGEST = 1 << 62
"""Magnitude of a number that a system call or a sum of times can still take."""

MOST_FACTS = 64
MOST = {
    "RankEnd.last_lines": -64, "Finished.leftovers": 256,
    "HostEvidence.kernel": -MOST_FACTS, "HostEvidence.stuck": MOST_FACTS, "HostEvidence.addresses": MOST_FACTS,
    "HostEvidence.missing": MOST_FACTS,
    "RankView.threads": MOST_THREADS, "RankView.groups": MOST_GROUPS,
    "RankView.collectives": -MOST_COLLECTIVES,
    "ThreadStack.frames": MOST_STACK_FRAMES,
    "ProcessGroup.ranks": MOST_GROUP_RANKS, "Collective.call_site": MOST_SITE_FRAMES,
    "Collective.input_sizes": MOST_TENSORS, "Collective.output_sizes": MOST_TENSORS,
    "Collective.dtypes": MOST_TENSORS,
}  # fmt: skip
"""Largest number of entries of a field, and of lists in it; the last ones are kept where it is negative."""

_PLAIN: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}


class WireError(Exception):
    """Line that is not a message of this protocol."""


def read(
    cls: type[T], body: dict[str, Any], parts: Mapping[str, type[Any] | list[Any]], longest: int | None = None
) -> T:
    """Build a `cls` from a JSON object; `parts` has the dataclasses of its fields by name, or the values
    that numbers stand for. Ignores unknown fields.

    With `longest`, texts are cut to so many characters, and lists to MOST entries.
    Raises WireError for a field that is missing or of the wrong type.
    """
    values = {}
    for item in fields(cls):  # type: ignore[arg-type]
        if item.name in body:
            values[item.name] = checked(str(item.type), body[item.name], f"{cls.__name__}.{item.name}", parts, longest)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise WireError(f"{cls.__name__} without {item.name!r}")
    return cls(**values)


def checked(
    kind: str, value: Any, where: str, parts: Mapping[str, type[Any] | list[Any]], longest: int | None = None
) -> Any:
    """Return `value` if it has the type that the annotation `kind` names. Raises WireError."""
    if kind.endswith(OR_NONE):
        return None if value is None else checked(kind[: -len(OR_NONE)], value, where, parts, longest)
    outer, _, inner = kind.rstrip("]").partition("[")
    if outer == "list" and isinstance(value, list):
        return [checked(inner, each, where, parts, longest) for each in _bounded(value, where, longest)]
    if outer == "tuple" and isinstance(value, list):
        inner = inner[: -len(REPEATED)]
        return tuple([checked(inner, each, where, parts, longest) for each in _bounded(value, where, longest)])
    if outer == "dict" and isinstance(value, dict):
        inner = inner.partition(", ")[2]
        return {name[:longest]: checked(inner, each, where, parts, longest) for name, each in value.items()}
    part = parts.get(kind)
    if isinstance(part, list) and type(value) is int and 0 <= value < len(part):
        return part[value]
    if isinstance(part, type) and isinstance(value, dict):
        return read(part, value, parts, longest)
    if isinstance(value, _PLAIN.get(kind, ())) and (kind == "bool" or not isinstance(value, bool)):
        if isinstance(value, (int, float)) and abs(value) > LARGEST:
            raise WireError(f"{where}: {str(value)[:40]} is too large")
        return value[:longest] if isinstance(value, str) else value
    raise WireError(f"{where}: expected {kind}, got {excerpt(json.dumps(value).encode())}")


def _bounded(entries: list[Any], where: str, longest: int | None) -> list[Any]:
    most = MOST.get(where)
    if longest is None or most is None:
        return entries
    return entries[most:] if most < 0 else entries[:most]


def excerpt(line: bytes) -> str:
    """Return the beginning of `line`, for an error message."""
    text = line[:200].decode("utf-8", "replace").rstrip("\n")
    return repr(text + ("…" if len(line) > 200 else ""))
