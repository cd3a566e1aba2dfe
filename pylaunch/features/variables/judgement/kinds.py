"""Values that a variable may have. Each kind describes itself, and complains about a value that is not of its kind."""

import contextlib
import ipaddress
import re
from collections.abc import Callable

from pylaunch.base.dataclass import dataclass

LONGEST_INTERFACE = 15
"""Characters in the name of a Linux network interface."""

MOST_HCAS = 32
_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|[0-9]+)")


@dataclass(frozen=True)
class ValueKind:
    """Values that a variable may have."""

    described: str
    """The values, in words that go after "expected"."""

    complaint: Callable[[str], str | None]
    """Returns the problem with a value; None if there is none."""


def _expecting(described: str, is_right: Callable[[str], object]) -> ValueKind:
    """Return a kind that complains with what it expects. `is_right` may raise ValueError for a value that is not."""

    def complaint(value: str) -> str | None:
        with contextlib.suppress(ValueError):
            if is_right(value):
                return None
        return f"expected {described}"

    return ValueKind(described, complaint)


@dataclass(frozen=True)
class Number:
    """A whole number, decimal or hexadecimal, within bounds that it includes."""

    low: int | None = None
    high: int | None = None

    @property
    def described(self) -> str:
        if (self.low, self.high) == (0, 1):
            return "0 or 1"
        if self.low is not None and self.high is not None:
            return f"a whole number {self.low} … {self.high}"
        return "a whole number" if self.low is None else f"a whole number, at least {self.low}"

    def complaint(self, value: str) -> str | None:
        if not _NUMBER.fullmatch(value):
            return f"expected {self.described}"
        number = self.read(value)
        if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
            return f"expected {self.described}"
        return None

    @staticmethod
    def read(value: str) -> int:
        """Parse `value` as C's strtoll does: digits up to the first character that is none, 0 without any."""
        found = _NUMBER.match(value.lstrip())
        return 0 if found is None else int(found[0], 16 if "x" in found[0].lower() else 10)


SWITCH = Number(0, 1)
FRACTION = _expecting("a number greater than 0", lambda value: float(value) > 0)
CIDR = _expecting("a range of addresses such as 10.0.0.0/16", lambda value: ipaddress.ip_network(value, strict=False))
THREADS = _expecting(
    "whole numbers, at least 1, comma-separated", lambda value: re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", value)
)
"""Numbers of threads, one per nesting level."""


def any_text(described: str) -> ValueKind:
    """Return a kind without a wrong value."""
    return ValueKind(described, lambda value: None)


TEXT = any_text("text")
PATH = ValueKind(
    "a path; ~ is not expanded",
    lambda value: "~ is not expanded here: write the whole path" if value.startswith("~") else None,
)


def _is_endpoint(value: str) -> bool:
    host, _, port = value.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) <= 65535


ENDPOINT = _expecting("host:port", _is_endpoint)


def _truth(yes: str, no: str) -> ValueKind:
    """Return a kind of words that its reader knows; anything else makes it fail."""
    known = (*yes.split(), *no.split())
    return _expecting(f"{', '.join(yes.split())} or {', '.join(no.split())}", lambda value: value.lower() in known)


TORCH_BOOL = _truth("1 true yes y t", "0 false no n f")
JAX_BOOL = _truth("1 true on yes y t", "0 false off no n f")


def one_of(words: str, *, also: str = "", any_case: bool = True) -> ValueKind:
    """Return a kind whose values are one of the blank-separated `words`. `also` are understood and discouraged."""
    described, allowed = ", ".join(words.split()), (*words.split(), *also.split())
    in_any_case = {word.upper() for word in allowed} if any_case else set()

    def complaint(value: str) -> str | None:
        return None if value in allowed or value.upper() in in_any_case else f"expected one of {described}"

    return ValueKind(described, complaint)


def words_of(words: str) -> ValueKind:
    """Return a kind of comma-separated lists out of the blank-separated `words`; a leading ^ excludes them instead."""
    described, known = ", ".join(words.split()), {word.upper() for word in words.split()}

    def complaint(value: str) -> str | None:
        given = [word.removeprefix("^") for word in value.split(",")]
        unknown = [word for word in given if word.upper() not in known]
        return f"{', '.join(map(repr, unknown))} is none of {described}" if unknown and value else None

    return ValueKind(f"a comma-separated list of {described}; ^ in front excludes them", complaint)


def per_function(words: str) -> ValueKind:
    """Return a kind of `[function:]list;function:list…`, as NCCL_ALGO and NCCL_PROTO take it since NCCL 2.24."""
    of_list = words_of(words).complaint

    def complaint(value: str) -> str | None:
        problems = (of_list(part.rpartition(":")[2]) for part in value.split(";"))
        return next(filter(None, problems), None)

    return ValueKind(f"{', '.join(words.split())}, as list or function:list;function:list", complaint)


def _interfaces_problem(value: str) -> str | None:
    bare = value.removeprefix("^").removeprefix("=")
    if not bare:
        return "expected the name of an interface"
    return next(filter(None, map(_interface_problem, bare.split(","))), None)


INTERFACES = ValueKind(
    "interfaces as name,… (beginnings of names), =name,… (exactly these) or ^name,… (all others)", _interfaces_problem
)
"""Network interfaces, or beginnings of their names: `[^][=]name,…`."""


def plain_interfaces(most: int) -> ValueKind:
    """Return a kind of at most so many names of interfaces, without signs in front."""
    described = "the name of an interface" if most == 1 else "names of interfaces, comma-separated"

    def complaint(value: str) -> str | None:
        names = value.split(",")
        if len(names) > most:
            return f"expected {described}"
        return next(filter(None, map(_interface_problem, names)), None)

    return ValueKind(described, complaint)


def _interface_problem(name: str) -> str | None:
    if not name:
        return "a name between two commas is empty"
    if name[0] in "=^":
        return f"{name[0]} stands once, in front of the whole list, and holds for all of it"
    if any(character.isspace() or character in "/'\"" for character in name) or len(name) > LONGEST_INTERFACE:
        return f"{name!r} cannot be the name of an interface"
    return None


def _hcas_problem(value: str) -> str | None:
    entries = value.removeprefix("^").removeprefix("=").split(",")
    if len(entries) > MOST_HCAS:
        return f"NCCL takes at most {MOST_HCAS} adapters, these are {len(entries)}"
    for entry in entries:
        name, *numbers = entry.split(":")
        if not name:
            return "an adapter without a name"
        if name[0] in "=^":
            return f"{name[0]} stands once, in front of the whole list, and holds for all of it"
        if len(numbers) > 3 or any(each and not _NUMBER.fullmatch(each) for each in numbers):
            return f"{entry!r} is not hca[:port[:rail[:plane]]]"
        if not re.fullmatch(r"[\w.-]+", name):
            return f"{name!r} cannot be the name of an adapter"
    return None


HCAS = ValueKind("adapters as [^][=]hca[:port[:rail[:plane]]],…", _hcas_problem)
"""InfiniBand or RoCE adapters."""


def _devices_problem(value: str) -> str | None:
    given = value.split(",") if value else []
    wrong = [each for each in given if not re.fullmatch(r"-?\d+|(GPU|MIG)-[\w/-]+", each)]
    if wrong:
        return f"{wrong[0]!r} is not a device: CUDA ignores it and all later ones"
    return "a device is named twice: CUDA shows none at all" if len(set(given)) < len(given) else None


DEVICES = ValueKind("device numbers or identifiers (GPU-…, MIG-…), comma-separated, each once", _devices_problem)


def _flags_problem(value: str) -> str | None:
    wrong = [word for word in value.split() if not word.startswith("--")]
    return f"{wrong[0]!r} does not begin with --" if wrong and not value.endswith(".txt") else None


FLAGS = ValueKind("flags --xla_…, blank-separated", _flags_problem)


def _pairs_problem(value: str) -> str | None:
    wrong = [part for part in re.sub(r"\[.*?\]", "", value).split(",") if ":" not in part]
    return f"{wrong[0]!r} is not key:value" if wrong else None


PAIRS = ValueKind("key:value,…", _pairs_problem)
