"""Majority of the answers of hosts, and the hosts with other answers. Pure."""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from pylaunch.base.dataclass import dataclass

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Majority(Generic[T]):
    """Most common answer and the others, with their hosts."""

    usual: T | None
    """Most common answer; None, with an empty `usual_hosts`, if no answer leads."""

    usual_hosts: tuple[str, ...]
    odd: tuple[tuple[T, tuple[str, ...]], ...]
    """Each other answer, with its hosts."""


def majority(answers: Mapping[str, T]) -> Majority[T]:
    """Divide `answers` (host → answer). A tie has no majority: everybody is odd then."""
    hosts: dict[T, list[str]] = {}
    for host, answer in answers.items():
        hosts.setdefault(answer, []).append(host)
    ranked = sorted(hosts.items(), key=lambda item: -len(item[1]))
    groups = tuple((answer, tuple(names)) for answer, names in ranked)
    if len(groups) > 1 and len(groups[0][1]) == len(groups[1][1]):
        return Majority(None, (), groups)
    if not groups:
        return Majority(None, (), ())
    return Majority(groups[0][0], groups[0][1], groups[1:])


def shown(value: str | None) -> str:
    """Return a value for display: hashes shortened, "" as "none"."""
    if not value:
        return "none"
    return f"{value[:12]}…" if len(value) == 64 else value
