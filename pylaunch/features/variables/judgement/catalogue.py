"""The catalogue of variables: names as data, with the document that has them, and the values of those that hurt."""

import re
from collections.abc import Mapping
from functools import cache
from pkgutil import get_data
from tomllib import loads
from typing import Any

from pylaunch.base.dataclass import dataclass
from pylaunch.model.setting import Source

_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|[0-9]+)")
_INTERFACE = r"(?!\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))[^\s/=^,\"']{1,15}"


def number(value: str) -> int:
    """Parse `value` as C's strtoll does: digits up to the first character that is none, 0 without any."""
    found = _NUMBER.match(value.lstrip())
    return 0 if found is None else int(found[0], 16 if "x" in found[0].lower() else 10)


@dataclass(frozen=True)
class Catalogue:
    """Names by what is known about them."""

    complete: tuple[str, ...]
    """Beginnings of names that are known completely."""

    sources: Mapping[str, Source]
    """Name that is read → its document."""

    renamed: Mapping[str, str]
    removed: Mapping[str, tuple[str, str]]
    """Name → last release of NCCL that reads it, and what to write instead."""

    unread: Mapping[str, str]
    debug_only: frozenset[str]
    _values: Mapping[str, Mapping[str, Any]]

    def complaint(self, name: str, value: str) -> str | None:
        """Return the problem with a value; None for a right one, and for a name whose values are not judged."""
        rule = self._values.get(name, {})
        if "range" in rule:
            low, high = rule["range"]
            if _NUMBER.fullmatch(value):
                return None if low <= number(value) <= high else f"expected {_words_of(low, high)}"
            as_read = f"; NCCL silently takes it for {number(value)}" if name.startswith("NCCL_") else ""
            return f"expected {_words_of(low, high)}{as_read}"
        if "words" in rule:
            words = rule["words"].split()
            return None if value.upper() in map(str.upper, words) else f"expected one of {', '.join(words)}"
        pattern = rule.get("pattern", ".*").replace("INTERFACE", _INTERFACE)
        return None if re.fullmatch(pattern, value, re.DOTALL) else f"expected {rule['expected']}"


def _words_of(low: int, high: int) -> str:
    return "0 or 1" if (low, high) == (0, 1) else f"a whole number {low} … {high}"


@cache
def catalogue() -> Catalogue:
    """Return the catalogue of `catalogue.toml`."""
    data = loads((get_data(__name__.rpartition(".")[0], "catalogue.toml") or b"").decode())
    sources = {name: Source(each["title"], each["url"]) for each in data["source"] for name in each["names"].split()}
    removed = {name: (last, instead) for name, (last, instead) in data["removed"].items()}
    return Catalogue(
        tuple(data["complete"]), sources, data["renamed"], removed, data["unread"],
        frozenset(data["debug_only"].split()), data["values"],
    )  # fmt: skip
