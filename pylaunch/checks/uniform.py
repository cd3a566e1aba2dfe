"""Facts that all hosts should share: report the hosts that differ from the majority. Pure."""

from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass
from pylaunch.model.diagnosis.finding import Finding, Severity
from pylaunch.model.diagnosis.majority import majority, shown
from pylaunch.model.hostset import fold


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


def size(count: float) -> str:
    """Return bytes with a binary unit: "64 KiB", "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
