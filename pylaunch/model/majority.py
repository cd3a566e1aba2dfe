"""What most hosts say, and who says otherwise. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Majority(Generic[T]):
    """How hosts divide over one question."""

    usual: T | None
    """What more hosts say than anything else; None with an empty `usual_hosts` when no answer leads."""

    usual_hosts: tuple[str, ...]
    odd: tuple[tuple[T, tuple[str, ...]], ...]
    """Each other answer, with who gave it."""


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
