"""Drift: changes that bring a host from its facts to the desired state, and notes on what it cannot have. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from pylaunch.base.dataclass import dataclass
from pylaunch.provision import gpu
from pylaunch.provision.facts import Facts, FileFact, LimitFact, ServiceFact, SysctlFact, Unreadable, WantedFile, key
from pylaunch.provision.state import DesiredFile, RoleState


@dataclass(frozen=True, order=True)
class Change:
    """One difference between a host and the desired state of a role."""

    role: str
    subject: str
    """A path, a package, a unit, a kernel setting."""

    difference: str


@dataclass(frozen=True, order=True)
class Note:
    """A setting of a role that this host cannot have; it stays as it is."""

    role: str
    text: str


def drift(states: Sequence[RoleState], facts: Facts) -> tuple[Change, ...]:
    """Return all differences, in the order in which roles run; empty if the host is in its desired state."""
    return tuple(Change(state.role, subject, how) for state in states for subject, how in _differences(state, facts))


def notes(states: Sequence[RoleState], facts: Facts) -> tuple[Note, ...]:
    """Return the settings that this host cannot have: it lacks them, or may not change them."""
    found = []
    for state in states:
        for file in state.files:
            if file.only_without_capability == "CAP_SYS_TIME" and not facts.may("CAP_SYS_TIME"):
                found.append(Note(state.role, "clock not disciplined here (no CAP_SYS_TIME)"))
        found += [Note(state.role, text) for text in (*state.remarks, *gpu.remarks(state, facts))]
        asked = (facts.sshd[name] for name in state.sshd)
        if reasons := {fact.reason for fact in asked if isinstance(fact, Unreadable)}:
            found.append(Note(state.role, f"what sshd allows was not looked at: {', '.join(sorted(reasons))}"))
        if missing := [name for name in state.sysctls if facts.sysctls[name] is None]:
            found.append(Note(state.role, f"not in this kernel or container: {', '.join(missing)}"))
        for name, wanted in state.sysctls.items():
            fact = facts.sysctls[name]
            if isinstance(fact, SysctlFact) and fact.read_only and fact.value != wanted:
                found.append(Note(state.role, f"{name} stays {fact.value}, wanted {wanted}: read-only here"))
        for name, wanted in state.limits.items():
            limit = facts.limits[name]
            if isinstance(limit, LimitFact) and limit.soft != wanted and _is_capped(limit, wanted, facts):
                found.append(
                    Note(
                        state.role,
                        f"{name} of a login stays {limit.soft}, wanted {wanted}: the container allows no more",
                    )
                )
    return tuple(found)


Difference = tuple[str, str]
"""Subject and difference."""


def _differences(state: RoleState, facts: Facts) -> Iterator[Difference]:
    yield from _packages(state, facts)
    for file in state.files:
        if is_wanted(file, facts):
            yield from _file(file, facts)
    yield from _blocks(state, facts)
    yield from _lines(state, facts)
    yield from _sysctls(state, facts)
    yield from _limits(state, facts)
    yield from _filesystems(state, facts)
    yield from _services(state, facts)
    yield from _environments(state, facts)
    yield from _links(state, facts)
    yield from _sshd(state, facts)
    yield from _holds(state, facts)
    yield from gpu.differences(state, facts)
    yield from _communications(state, facts)
    yield from _absent_paths(state, facts)
    yield from _reports(state, facts)


def is_wanted(file: DesiredFile, facts: Facts) -> bool:
    """Return whether the file is meant for this kind of host."""
    if file.only_where is not None and facts.exists[file.only_where] is False:
        return False
    return file.only_without_capability is None or not facts.may(file.only_without_capability)


def package_subject(name: str) -> str:
    """Describe the change of package `name`."""
    return f"package {name}"


def _packages(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for name in state.packages:
        fact = facts.packages[name]
        if fact is None:
            yield package_subject(name), "not installed"
        elif isinstance(fact, Unreadable):
            yield package_subject(name), _unreadable(fact)


def _file(file: DesiredFile, facts: Facts) -> Iterator[Difference]:
    fact = facts.files[file.path]
    if fact is None:
        yield file.path, "missing"
    elif isinstance(fact, Unreadable):
        yield file.path, _unreadable(fact)
    elif different := _how_differs(file, fact):
        yield file.path, different


def _how_differs(file: DesiredFile, fact: FileFact) -> str | None:
    if fact.sha256 != hashlib.sha256(file.content.encode()).hexdigest():
        return "content differs"
    return _mode_or_owner(fact, file.mode)


def _mode_or_owner(fact: FileFact, mode: str) -> str | None:
    if fact.mode != mode:
        return f"mode is {fact.mode}, not {mode}"
    if (fact.owner, fact.group) != ("root", "root"):
        return f"belongs to {fact.owner}:{fact.group}, not root:root"
    return None


def _blocks(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for block in state.blocks:
        fact = facts.blocks[f"{block.path}\n{block.begin}"]
        if isinstance(fact, Unreadable):
            yield block.path, _unreadable(fact)
        elif fact is None:
            yield block.path, "our block is missing"
        elif fact != block.content.replace("@hostname@", facts.hostname).strip("\n"):
            yield block.path, "our block differs"


def _lines(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for line in state.absent_lines:
        fact = facts.lines[f"{line.path}\n{line.regexp}"]
        if isinstance(fact, Unreadable):
            yield line.path, _unreadable(fact)
        elif fact:
            yield line.path, f"has the line {' '.join(fact[0].split())!r}"


def _sysctls(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for name, wanted in state.sysctls.items():
        fact = facts.sysctls[name]
        if isinstance(fact, Unreadable):
            yield name, _unreadable(fact)
        elif fact is not None and fact.value != wanted and not fact.read_only:
            yield name, f"is {fact.value}, not {wanted}"


def _limits(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for name, wanted in state.limits.items():
        fact = facts.limits[name]
        if isinstance(fact, Unreadable):
            yield f"limit {name}", _unreadable(fact)
        elif fact is not None and fact.soft != wanted and not _is_capped(fact, wanted, facts):
            yield f"limit {name}", f"a rank gets {fact.soft}, not {wanted}"


def _is_capped(limit: LimitFact, wanted: str, facts: Facts) -> bool:
    """Return whether not even root may raise the limit that far on this host (it lacks CAP_SYS_RESOURCE)."""
    if facts.may("CAP_SYS_RESOURCE") or limit.hard == "unlimited":
        return False
    return wanted == "unlimited" or int(limit.hard) < int(wanted)


def _filesystems(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for filesystem in state.filesystems:
        fact = facts.filesystems[filesystem.path]
        if isinstance(fact, Unreadable):
            yield filesystem.path, _unreadable(fact)
        elif fact is None or fact < filesystem.minimum_mib:
            yield filesystem.path, f"has {fact or 0} MiB, needs {filesystem.minimum_mib}"


def _services(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for unit in state.services:
        fact = facts.services[unit]
        if isinstance(fact, Unreadable):
            yield unit, _unreadable(fact)
        elif fact is None:
            yield unit, "no such unit"
        elif not _runs(fact):
            skipped = " (systemd skipped it: a condition of the unit is not met)" if fact.condition == "no" else ""
            yield unit, f"is {fact.enabled or fact.load} and {fact.active}{skipped}"
    for unit in state.absent_services:
        fact = facts.services[unit]
        if isinstance(fact, Unreadable):
            yield unit, _unreadable(fact)
        elif fact is not None and (fact.active == "active" or fact.enabled == "enabled"):
            yield unit, f"is {fact.enabled} and {fact.active}, and must not be"


def _runs(fact: ServiceFact) -> bool:
    return fact.enabled == "enabled" and fact.active == "active"


def _environments(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for environment in state.environments:
        fact = facts.environments[environment.path]
        if isinstance(fact, Unreadable):
            yield environment.path, _unreadable(fact)
        elif fact is None:
            yield environment.path, "not installed"
        elif fact.digest != fact.recorded:
            yield environment.path, "changed since it was installed"
        elif not fact.runs:
            yield environment.path, "its interpreter is gone"
        elif environment.path in facts.altered:
            yield from _altered(environment.path, facts)


def _altered(environment: str, facts: Facts) -> Iterator[Difference]:
    altered = facts.altered[environment]
    if isinstance(altered, Unreadable):
        yield environment, _unreadable(altered)
    for file in altered if isinstance(altered, tuple) else ():
        yield file.path, f"{file.how} ({file.package})"


def _links(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for link in state.links:
        fact = facts.links[link.path]
        if isinstance(fact, Unreadable):
            yield link.path, _unreadable(fact)
        elif fact != link.target:
            yield link.path, f"points at {fact}, not {link.target}" if fact is not None else "missing"


def _sshd(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for option, wanted in state.sshd.items():
        fact = facts.sshd[option]
        if fact is None:
            yield f"sshd {option}", "no sshd here that knows it"
        elif not isinstance(fact, Unreadable) and fact != wanted:
            yield f"sshd {option}", f"comes to {fact}, not {wanted}"


def _holds(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for name in state.holds:
        fact = facts.holds[name]
        if isinstance(fact, Unreadable):
            yield f"package {name}", _unreadable(fact)
        elif fact is False:
            yield f"package {name}", "is not held"


def _communications(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for communication in state.communications:
        fact = facts.communications[key(communication.question)]
        if fact is None or isinstance(fact, Unreadable):
            reason = fact.reason if fact is not None else "no answer"
            yield "communication", f"cannot be decided: {reason}"
            continue
        for wanted in fact.wanted_files:
            found = facts.files[wanted.path]
            if isinstance(found, Unreadable):
                yield wanted.path, _unreadable(found)
            elif different := _how_differs_from_wanted(wanted, found):
                yield wanted.path, f"{different} (profile {fact.profile} over {fact.interface})"


def _how_differs_from_wanted(wanted: WantedFile, found: FileFact | None) -> str | None:
    if found is None:
        return "missing"
    if wanted.is_foreign:
        return "written by somebody else; it will be kept as " + wanted.path + ".before-pylaunch"
    if found.sha256 != wanted.sha256:
        return "content differs"
    return _mode_or_owner(found, "0644")


def _absent_paths(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for path in state.absent_paths:
        fact = facts.exists[path]
        if isinstance(fact, Unreadable):
            yield path, _unreadable(fact)
        elif fact:
            yield path, "is there, and must not be"


def _reports(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for path in state.reports:
        fact = facts.reports[path]
        if isinstance(fact, Unreadable):
            how = "; ask for it with --ask-become-pass (-K)" if "a password is required" in fact.reason else ""
            yield state.role, _unreadable(fact) + how
        elif fact is None:
            yield state.role, "not in force"
        else:
            for difference in fact:
                yield state.role, difference


def _unreadable(fact: Unreadable) -> str:
    return f"cannot be read: {fact.reason}"
