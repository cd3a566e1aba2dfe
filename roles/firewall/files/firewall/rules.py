"""Wanted rules and live rules, as values."""

from __future__ import annotations

import json
from typing import Iterator, List, NamedTuple, Tuple

from host import sha256


class Wanted(NamedTuple):
    """Rules that the role wants on this host, with its ephemeral range inserted."""

    members: List[str]
    closed: List[str]
    """TCP ports that only members may open: `29500` or `29400-29599`."""

    udp_ports: List[int]
    """UDP ports that members may send to."""

    ssh_ports: List[int]
    ephemeral: str
    rules: str

    @property
    def digest(self) -> str:
        """Digest of everything except the members."""
        return sha256(json.dumps([self.closed, self.udp_ports, self.ssh_ports, self.rules]))

    @property
    def closed_beside_ssh(self) -> List[str]:
        """`closed` without the SSH ports, for backends whose rules cannot have exceptions."""
        return list(_without(self.closed, sorted(self.ssh_ports)))


class Live(NamedTuple):
    """Active rules."""

    rules: str
    """Digest of everything except the members."""

    members: List[str]


def bounds(ports: str) -> Tuple[int, int]:
    """Return the first and last port of `29500` or `29400-29599`."""
    first, _, last = ports.partition("-")
    return int(first), int(last or first)


def _without(ranges: List[str], holes: List[int]) -> Iterator[str]:
    for each in ranges:
        first, last = bounds(each)
        for hole in [each for each in holes if first <= each <= last]:
            yield from _written(first, hole - 1)
            first = hole + 1
        yield from _written(first, last)


def _written(first: int, last: int) -> Iterator[str]:
    if first <= last:
        yield str(first) if first == last else "%d-%d" % (first, last)
