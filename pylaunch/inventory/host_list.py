"""Hosts named on the command line instead of in a file: Ansible's host list, `gpu01,gpu02,`. Pure but for one look.

Such an inventory has no file, so what belongs to its project (`.pylaunch`) is in the working directory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pylaunch.model.argv import quoted
from pylaunch.model.hostset import expand, fold

_HOST = re.compile(r"(?!-)[\w.:%-]+|\[[\da-fA-F:.]+\](?::\d+)?")
_WITH_PORT = re.compile(r"([^:\[\]]+|\[[^\]]+\]):(\d+)")
_FOLDED = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")


def is_host_list(source: Path) -> bool:
    """`source` is a host list, as Ansible tells it from a file: it has a comma, and there is no file of that name."""
    text = str(source)
    return "," in text and "/" not in text and not source.exists()


def names_in(source: Path) -> tuple[str, ...]:
    """The hosts of a host list, in its order. Raises ValueError for a word that is no host."""
    names = tuple(dict.fromkeys(name.strip() for name in str(source).split(",") if name.strip()))
    if not names:
        raise ValueError("no host is named")
    for name in names:
        if "@" in name:
            raise ValueError(f"{name!r}: the user belongs in ~/.ssh/config, or in an inventory file as ansible_user")
        if not _HOST.fullmatch(name):
            raise ValueError(f"{name!r} is no host")
    return names


def host_list(hostset: str) -> str:
    """The host list of `gpu[01-02],x`. Raises ValueError for what is no set of hosts."""
    return "".join(f"{name}," for name in names_in(Path(",".join(expand(hostset)) + ",")))


def command_to_write(names: Sequence[str], file: str) -> str:
    """The shell command that writes the inventory `file` with the hosts `names`, in their order."""
    words = ("printf", r"%s\n", "[cluster]", *_lines(names))
    return f"{quoted(words)} > {quoted((file,))}"


def _lines(names: Sequence[str]) -> list[str]:
    folded = fold(names)
    if any(":" in name for name in names) or expand(folded) != tuple(names):
        return [_line(name) for name in names]
    return [line for piece in _FOLDED.findall(folded) for line in _ranges(piece)]


def _line(name: str) -> str:
    """A host with its port as Ansible's INI format has it."""
    found = _WITH_PORT.fullmatch(name)
    return name if found is None else f"{found[1].strip('[]')} ansible_port={found[2]}"


def _ranges(piece: str) -> list[str]:
    """`gpu[01-02,07]` as Ansible counts: `gpu[01:02]`, `gpu07`."""
    head, bracket, rest = piece.partition("[")
    if not bracket:
        return [piece]
    inside, _, tail = rest.partition("]")
    return [
        f"{head}[{item.replace('-', ':')}]{tail}" if "-" in item else f"{head}{item}{tail}"
        for item in inside.split(",")
    ]
