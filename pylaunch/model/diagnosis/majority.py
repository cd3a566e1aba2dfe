"""Facts that all hosts should share: what most of them have, and findings about those that differ. Pure."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.hostset import fold

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


@dataclass(frozen=True)
class Rule:
    """Text, severity and fix for a difference."""

    check: str
    severity: Severity
    what: str
    """The fact: "kernel"."""

    fix: str = ""
    """The command to type; {hosts} in it becomes the hosts that differ."""

    role: str = ""


def odd_ones(rule: Rule, answers: Mapping[str, str]) -> Iterable[Finding]:
    """Return a finding for every value (host → value, "" is none) that is not the majority's; for all at a tie."""
    division = majority(answers)
    for value, hosts in division.odd:
        if division.usual_hosts:
            expected = f"expected {shown(division.usual)} as on {fold(division.usual_hosts)}"
        else:
            others = [f"{shown(other)} on {fold(names)}" for other, names in division.odd if other != value]
            expected = "no two agree" if len(others) > 3 else "; ".join(others)
        text = f"{rule.what}: {shown(value)}, {expected}"
        yield Finding(rule.check, rule.severity, hosts, text, rule.fix, rule.role)


def median(values: Iterable[float]) -> float:
    """Return the median, as that of `statistics`, whose import costs each start 9 ms. Raises IndexError for none."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
