"""Values that a variable may have. Each kind describes itself, and complains about a value that is not of its kind."""

from __future__ import annotations

import ipaddress
import re
from typing import Protocol

from pylaunch.base.dataclass import dataclass

LONGEST_INTERFACE = 15
"""Characters in the name of a Linux network interface."""

MOST_HCAS = 32
_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|[0-9]+)")


class ValueKind(Protocol):
    """Values that a variable may have."""

    @property
    def described(self) -> str:
        """The values, in words that go after "expected"."""

    def complaint(self, value: str) -> str | None:
        """Return the problem with `value`; None if there is none."""


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


@dataclass(frozen=True)
class Fraction:
    """A number that may have decimals."""

    described: str = "a number greater than 0"

    def complaint(self, value: str) -> str | None:
        try:
            return None if float(value) > 0 else f"expected {self.described}"
        except ValueError:
            return f"expected {self.described}"


@dataclass(frozen=True)
class Choice:
    """One of some words. `also` are understood and discouraged."""

    words: tuple[str, ...]
    also: tuple[str, ...] = ()
    any_case: bool = True

    @property
    def described(self) -> str:
        return ", ".join(self.words)

    def complaint(self, value: str) -> str | None:
        allowed = (*self.words, *self.also)
        if value in allowed or (self.any_case and value.upper() in {word.upper() for word in allowed}):
            return None
        return f"expected one of {self.described}"


def one_of(words: str, *, also: str = "", any_case: bool = True) -> Choice:
    """Return a kind whose values are one of the blank-separated `words`."""
    return Choice(tuple(words.split()), tuple(also.split()), any_case)


@dataclass(frozen=True)
class Words:
    """Comma-separated words out of some; a leading ^ excludes them instead."""

    words: tuple[str, ...]

    @property
    def described(self) -> str:
        return f"a comma-separated list of {', '.join(self.words)}; ^ in front excludes them"

    def complaint(self, value: str) -> str | None:
        given = [word.removeprefix("^") for word in value.split(",")]
        unknown = [word for word in given if word.upper() not in {each.upper() for each in self.words}]
        return f"{', '.join(map(repr, unknown))} is none of {', '.join(self.words)}" if unknown and value else None


def words_of(words: str) -> Words:
    """Return a kind whose values are lists of the blank-separated `words`."""
    return Words(tuple(words.split()))


@dataclass(frozen=True)
class PerFunction:
    """`[function:]list;function:list…`, as NCCL_ALGO and NCCL_PROTO take it since NCCL 2.24."""

    words: tuple[str, ...]

    @property
    def described(self) -> str:
        return f"{', '.join(self.words)}, as list or function:list;function:list"

    def complaint(self, value: str) -> str | None:
        for part in value.split(";"):
            if problem := Words(self.words).complaint(part.rpartition(":")[2]):
                return problem
        return None


@dataclass(frozen=True)
class Interfaces:
    """Network interfaces, or beginnings of their names: `[^][=]name,…`."""

    described: str = "interfaces as name,… (beginnings of names), =name,… (exactly these) or ^name,… (all others)"

    def complaint(self, value: str) -> str | None:
        bare = value.removeprefix("^").removeprefix("=")
        if not bare:
            return "expected the name of an interface"
        for name in bare.split(","):
            if problem := _interface_problem(name):
                return problem
        return None


@dataclass(frozen=True)
class PlainInterfaces:
    """Names of interfaces, without signs in front."""

    most: int

    @property
    def described(self) -> str:
        return "the name of an interface" if self.most == 1 else "names of interfaces, comma-separated"

    def complaint(self, value: str) -> str | None:
        names = value.split(",")
        if len(names) > self.most:
            return f"expected {self.described}"
        return next((problem for name in names if (problem := _interface_problem(name))), None)


def _interface_problem(name: str) -> str | None:
    if not name:
        return "a name between two commas is empty"
    if name[0] in "=^":
        return f"{name[0]} stands once, in front of the whole list, and holds for all of it"
    if any(character.isspace() or character in "/'\"" for character in name) or len(name) > LONGEST_INTERFACE:
        return f"{name!r} cannot be the name of an interface"
    return None


@dataclass(frozen=True)
class Hcas:
    """InfiniBand or RoCE adapters: `[^][=]hca[:port[:rail[:plane]]],…`."""

    described: str = "adapters as [^][=]hca[:port[:rail[:plane]]],…"

    def complaint(self, value: str) -> str | None:
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


@dataclass(frozen=True)
class Path:
    """A file or a directory. `~` is not expanded by those who read it."""

    described: str = "a path; ~ is not expanded"

    def complaint(self, value: str) -> str | None:
        return "~ is not expanded here: write the whole path" if value.startswith("~") else None


@dataclass(frozen=True)
class Text:
    """Anything."""

    described: str = "text"

    def complaint(self, value: str) -> str | None:
        return None


@dataclass(frozen=True)
class Truth:
    """Yes or no, in words that its reader knows; anything else makes it fail."""

    yes: tuple[str, ...]
    no: tuple[str, ...]

    @property
    def described(self) -> str:
        return f"{', '.join(self.yes)} or {', '.join(self.no)}"

    def complaint(self, value: str) -> str | None:
        return None if value.lower() in (*self.yes, *self.no) else f"expected {self.described}"


TORCH_BOOL = Truth(("1", "true", "yes", "y", "t"), ("0", "false", "no", "n", "f"))
JAX_BOOL = Truth(("1", "true", "on", "yes", "y", "t"), ("0", "false", "off", "no", "n", "f"))


@dataclass(frozen=True)
class Devices:
    """CUDA devices by number or identifier."""

    described: str = "device numbers or identifiers (GPU-…, MIG-…), comma-separated, each once"

    def complaint(self, value: str) -> str | None:
        given = value.split(",") if value else []
        wrong = [each for each in given if not re.fullmatch(r"-?\d+|(GPU|MIG)-[\w/-]+", each)]
        if wrong:
            return f"{wrong[0]!r} is not a device: CUDA ignores it and all later ones"
        return "a device is named twice: CUDA shows none at all" if len(set(given)) < len(given) else None


@dataclass(frozen=True)
class Flags:
    """Command-line flags of XLA."""

    described: str = "flags --xla_…, blank-separated"

    def complaint(self, value: str) -> str | None:
        wrong = [word for word in value.split() if not word.startswith("--")]
        return f"{wrong[0]!r} does not begin with --" if wrong and not value.endswith(".txt") else None


@dataclass(frozen=True)
class Pairs:
    """`key:value,…`."""

    described: str = "key:value,…"

    def complaint(self, value: str) -> str | None:
        wrong = [part for part in re.sub(r"\[.*?\]", "", value).split(",") if ":" not in part]
        return f"{wrong[0]!r} is not key:value" if wrong else None


@dataclass(frozen=True)
class Cidr:
    """A range of addresses."""

    described: str = "a range of addresses such as 10.0.0.0/16"

    def complaint(self, value: str) -> str | None:
        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            return f"expected {self.described}"
        return None


@dataclass(frozen=True)
class Endpoint:
    """`host:port`."""

    described: str = "host:port"

    def complaint(self, value: str) -> str | None:
        host, colon, port = value.rpartition(":")
        if host and colon and port.isdecimal() and 0 < int(port) <= 65535:
            return None
        return "expected host:port"


@dataclass(frozen=True)
class Threads:
    """Numbers of threads, one per nesting level."""

    described: str = "whole numbers, at least 1, comma-separated"

    def complaint(self, value: str) -> str | None:
        return None if re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", value) else f"expected {self.described}"
