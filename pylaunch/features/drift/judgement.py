"""The minority report: facts that differ between hosts or from the attestation, each with its cause. Pure.

configuration   it differs from a role's desired state: `pylaunch provision` corrects it
time            it was different at the last attestation
cluster         neither: only the comparison with the other hosts shows it
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeGuard

from pylaunch.base.dataclass import dataclass
from pylaunch.model.attestation import HostRecord
from pylaunch.model.diagnosis.majority import majority

CONFIGURED = "as configured"
ABSENT = "absent"
CONFIGURATION_GROUP = "configuration"


class Cause(Enum):
    """The cause of a deviation."""

    CONFIGURATION = "configuration"
    TIME = "time"
    CLUSTER = "cluster"


@dataclass(frozen=True)
class Why:
    """A cause, with what was expected instead."""

    cause: Cause
    text: str = ""

    def __str__(self) -> str:
        return f"{self.cause.value} ({self.text})" if self.text else self.cause.value


@dataclass(frozen=True)
class Oddity:
    """A fact that deviates on some hosts."""

    group: str
    fact: str
    usual: str | None
    """Value on most hosts; None without a majority."""

    usual_count: int
    hosts: tuple[str, ...]
    value: str
    why: tuple[Why, ...]


@dataclass(frozen=True)
class Report:
    """Result of the comparison of all hosts."""

    oddities: tuple[Oddity, ...]
    unread: Mapping[str, tuple[str, ...]]
    """Host → groups of facts that could not be read, with the reason. They are not judged."""


def compare(
    found: Mapping[str, HostRecord],
    expected: Mapping[str, Mapping[str, str]],
    attested: Mapping[str, HostRecord],
) -> Report:
    """Compare hosts with each other, with the desired state, and with the attestation.

    `expected`: host → subject → how it differs from the desired state.
    """
    comparison = _Comparison(found, expected, attested)
    groups = dict.fromkeys(group for record in found.values() for group in record.facts)
    oddities = [oddity for group in groups for oddity in comparison.group(group)]
    reported = {(host, oddity.fact) for oddity in oddities for host in oddity.hosts}
    oddities += comparison.only_configured(reported)
    oddities += comparison.restarted()
    unread = {
        host: tuple(f"{group}: {reason}" for group, body in record.facts.items() if (reason := _reason(body)))
        for host, record in found.items()
    }
    return Report(tuple(oddities), {host: groups for host, groups in unread.items() if groups})


@dataclass(frozen=True)
class _Comparison:
    found: Mapping[str, HostRecord]
    expected: Mapping[str, Mapping[str, str]]
    attested: Mapping[str, HostRecord]

    def group(self, group: str) -> Iterator[Oddity]:
        bodies = {host: record.facts.get(group) for host, record in self.found.items()}
        readable = {host: body for host, body in bodies.items() if _is_readable(body)}
        facts = {fact for body in readable.values() for fact in body}
        facts |= {fact for host in readable for fact in self._attested(host, group) or ()}
        for fact in sorted(facts):
            yield from self._fact(group, fact, {host: body.get(fact) for host, body in readable.items()})

    def _fact(self, group: str, fact: str, raw: Mapping[str, Any]) -> Iterator[Oddity]:
        values = {host: self._shown(group, host, fact, value) for host, value in raw.items()}
        reasons = {host: tuple(self._why(group, host, fact, raw[host])) for host in values}
        usual, count = _usual(values, reasons)
        alike: dict[tuple[str, tuple[Why, ...]], list[str]] = {}
        for host, value in values.items():
            why = reasons[host] or (() if value == usual else (Why(Cause.CLUSTER),))
            if why:
                alike.setdefault((value, why), []).append(host)
        for (value, why), hosts in alike.items():
            yield Oddity(group, fact, usual, count, tuple(hosts), value, why)

    def _why(self, group: str, host: str, fact: str, value: Any) -> Iterator[Why]:
        if (difference := self.expected.get(host, {}).get(fact)) is not None:
            yield Why(Cause.CONFIGURATION, difference)
        before = self._attested(host, group)
        if before is not None and before.get(fact) != value:
            yield Why(Cause.TIME, f"was {_text(before.get(fact))}")

    def _attested(self, host: str, group: str) -> Mapping[str, Any] | None:
        """Return the attested group; None if there is none."""
        record = self.attested.get(host)
        body = record.facts.get(group) if record is not None else None
        return body if _is_readable(body) else None

    def _shown(self, group: str, host: str, fact: str, value: Any) -> str:
        # Files may differ between hosts on purpose: each is compared with its own desired state.
        if group == CONFIGURATION_GROUP and fact not in self.expected.get(host, {}):
            return CONFIGURED
        return _text(value)

    def only_configured(self, reported: set[tuple[str, str]]) -> Iterator[Oddity]:
        """Yield differences from the desired state that no group of facts covers: units, blocks in files."""
        alike: dict[tuple[str, str], list[str]] = {}
        for host, subjects in self.expected.items():
            for subject, difference in subjects.items():
                if (host, subject) not in reported:
                    alike.setdefault((subject, difference), []).append(host)
        for (subject, difference), hosts in alike.items():
            right = len(self.found) - len([host for host in self.found if subject in self.expected.get(host, {})])
            yield Oddity(
                CONFIGURATION_GROUP, subject, CONFIGURED, right, tuple(hosts), difference, (Why(Cause.CONFIGURATION),)
            )

    def restarted(self) -> Iterator[Oddity]:
        """Return hosts that rebooted since they were attested."""
        for host, record in self.found.items():
            before = self.attested.get(host)
            if before is not None and before.own.get("boot id") != record.own.get("boot id"):
                was = Why(Cause.TIME, f"was {_text(before.own.get('booted'))}")
                yield Oddity("own", "booted", None, 0, (host,), _text(record.own.get("booted")), (was,))


def _usual(values: Mapping[str, str], reasons: Mapping[str, tuple[Why, ...]]) -> tuple[str | None, int]:
    """Return the majority value and its count; in a tie, the value of the hosts without other deviations."""
    division = majority(values)
    if division.usual_hosts:
        return division.usual, len(division.usual_hosts)
    unsuspected = {value for host, value in values.items() if not reasons[host]}
    usual = unsuspected.pop() if len(unsuspected) == 1 else None
    return usual, [*values.values()].count(usual) if usual is not None else 0


def _is_readable(body: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(body, Mapping) and "unreadable" not in body


def _reason(body: Any) -> str | None:
    return body.get("unreadable") if isinstance(body, Mapping) else None


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 and set(text) <= set("0123456789abcdef") else text
