"""Drift: changes that bring a host from its facts to the desired state, and notes on what it cannot have. Pure."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from pylaunch.base.dataclass import dataclass
from pylaunch.checks.gpudirect import exports_dma_buf
from pylaunch.probe.answers import Unmeasured
from pylaunch.protocol.readings.roles import (
    CommunicationFile,
    FileReading,
    GpuReading,
    LimitReading,
    ServiceReading,
    SysctlReading,
)
from pylaunch.provision.observed.facts import Answers, Facts, key
from pylaunch.provision.state import DesiredBlock, DesiredFile, DesiredGpu, RoleState

_NUMBER = re.compile(r"\d{1,19}")
PACKAGE = "package "
"""Start of the subject of a package."""


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


def changes_of(states: Sequence[RoleState], facts: Facts) -> tuple[Change, ...]:
    """Return all differences, in the order in which roles run; empty if the host is in its desired state."""
    return tuple(Change(state.role, subject, how) for state in states for subject, how in _differences(state, facts))


def notes(states: Sequence[RoleState], facts: Facts) -> tuple[Note, ...]:
    """Return the settings that this host cannot have: it lacks them, or may not change them."""
    found = []
    for state in states:
        for file in state.files:
            if file.only_without_capability == "CAP_SYS_TIME" and not facts.may("CAP_SYS_TIME"):
                found.append(Note(state.role, "clock not disciplined here (no CAP_SYS_TIME)"))
        found += [Note(state.role, text) for text in (*state.remarks, *_gpu_remarks(state, facts))]
        asked = (facts.sshd[name] for name in state.sshd)
        if reasons := {fact.reason for fact in asked if isinstance(fact, Unmeasured)}:
            found.append(Note(state.role, f"what sshd allows was not looked at: {', '.join(sorted(reasons))}"))
        if missing := [name for name in state.sysctls if facts.sysctls[name] is None]:
            found.append(Note(state.role, f"not in this kernel or container: {', '.join(missing)}"))
        for name, wanted in state.sysctls.items():
            fact = facts.sysctls[name]
            if isinstance(fact, dict) and fact["read_only"] and fact["value"] != wanted:
                found.append(Note(state.role, f"{name} stays {fact['value']}, wanted {wanted}: read-only here"))
        for name, wanted in state.limits.items():
            limit = facts.limits[name]
            if isinstance(limit, dict) and limit["soft"] != wanted and _is_capped(limit, wanted, facts):
                stays = f"{name} of a login stays {limit['soft']}, wanted {wanted}"
                found.append(Note(state.role, f"{stays}: the container allows no more"))
    return tuple(found)


T = TypeVar("T")
W = TypeVar("W")
Difference = tuple[str, str]
"""Subject and difference."""


def _differences(state: RoleState, facts: Facts) -> Iterator[Difference]:
    yield from _judged(facts.packages, dict.fromkeys(state.packages), _package, PACKAGE)
    yield from _judged(facts.files, {file.path: file for file in state.files if is_wanted(file, facts)}, _file)
    blocks = {f"{block.path}\n{block.begin}": block for block in state.blocks}
    yield from _judged(facts.blocks, blocks, lambda block, fact: _block(block, fact, facts.hostname))
    yield from _judged(facts.lines, {f"{line.path}\n{line.regexp}": None for line in state.absent_lines}, _absent_line)
    yield from _judged(facts.sysctls, state.sysctls, _sysctl)
    yield from _judged(facts.limits, state.limits, lambda wanted, fact: _limit(wanted, fact, facts), "limit ")
    minima = {filesystem.path: filesystem.minimum_mib for filesystem in state.filesystems}
    yield from _judged(facts.filesystems, minima, _filesystem)
    yield from _judged(facts.services, dict.fromkeys(state.services), _service)
    yield from _judged(facts.services, dict.fromkeys(state.absent_services), _absent_service)
    yield from _environments(state, facts)
    yield from _judged(facts.links, {link.path: link.target for link in state.links}, _link)
    yield from _sshd(state, facts)
    yield from _judged(facts.holds, dict.fromkeys(state.holds), _hold, PACKAGE)
    yield from _gpu_differences(state, facts)
    yield from _communications(state, facts)
    yield from _judged(facts.exists, dict.fromkeys(state.absent_paths), _absent_path)
    yield from _judged(facts.modes, state.modes, _mode)
    yield from _reports(state, facts)


def _judged(
    answers: Answers[T],
    wanted: Mapping[str, W],
    judge: Callable[[W, T | None], str | None],
    prefix: str = "",
) -> Iterator[Difference]:
    """Yield what `judge` returns for each answer, and the reason for an answer that could not be read.

    The subject is the first line of the question, after `prefix`.
    """
    for question, each in wanted.items():
        fact = answers[question]
        if different := _unreadable(fact) if isinstance(fact, Unmeasured) else judge(each, fact):
            yield prefix + question.partition("\n")[0], different


def is_wanted(file: DesiredFile, facts: Facts) -> bool:
    """Return whether the file is meant for this kind of host."""
    if file.only_where is not None and facts.exists[file.only_where] is False:
        return False
    return file.only_without_capability is None or not facts.may(file.only_without_capability)


def package_subject(name: str) -> str:
    """Describe the change of package `name`."""
    return f"{PACKAGE}{name}"


def _package(_wanted: None, fact: str | None) -> str | None:
    return "not installed" if fact is None else None


def _file(file: DesiredFile, fact: FileReading | None) -> str | None:
    if fact is None:
        return "missing"
    if fact["sha256"] != hashlib.sha256(file.content.encode()).hexdigest():
        return "content differs"
    return _mode_or_owner(fact, file.mode)


def _mode_or_owner(fact: FileReading, mode: str) -> str | None:
    if fact["mode"] != mode:
        return f"mode is {fact['mode']}, not {mode}"
    if (fact["owner"], fact["group"]) != ("root", "root"):
        return f"belongs to {fact['owner']}:{fact['group']}, not root:root"
    return None


def _block(block: DesiredBlock, fact: str | None, hostname: str) -> str | None:
    if fact is None:
        return "our block is missing"
    return "our block differs" if fact != block.content.replace("@hostname@", hostname).strip("\n") else None


def _absent_line(_wanted: None, fact: list[str] | None) -> str | None:
    return f"has the line {' '.join(fact[0].split())!r}" if fact else None


def _sysctl(wanted: str, fact: SysctlReading | None) -> str | None:
    is_other = fact is not None and fact["value"] != wanted and not fact["read_only"]
    return f"is {fact['value']}, not {wanted}" if fact is not None and is_other else None


def _limit(wanted: str, fact: LimitReading | None, facts: Facts) -> str | None:
    if fact is None or fact["soft"] == wanted or _is_capped(fact, wanted, facts):
        return None
    return f"a rank gets {fact['soft']}, not {wanted}"


def _is_capped(limit: LimitReading, wanted: str, facts: Facts) -> bool:
    """Return whether not even root may raise the limit that far on this host (it lacks CAP_SYS_RESOURCE)."""
    if facts.may("CAP_SYS_RESOURCE") or not _NUMBER.fullmatch(limit["hard"]):
        return False
    return wanted == "unlimited" or int(limit["hard"]) < int(wanted)


def _filesystem(minimum_mib: int, fact: int | None) -> str | None:
    return f"has {fact or 0} MiB, needs {minimum_mib}" if fact is None or fact < minimum_mib else None


def _service(_wanted: None, fact: ServiceReading | None) -> str | None:
    if fact is None:
        return "no such unit"
    if fact["enabled"] == "enabled" and fact["active"] == "active":
        return None
    skipped = " (systemd skipped it: a condition of the unit is not met)" if fact["condition"] == "no" else ""
    return f"is {fact['enabled'] or fact['load']} and {fact['active']}{skipped}"


def _absent_service(_wanted: None, fact: ServiceReading | None) -> str | None:
    if fact is not None and (fact["active"] == "active" or fact["enabled"] == "enabled"):
        return f"is {fact['enabled']} and {fact['active']}, and must not be"
    return None


def _environments(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for environment in state.environments:
        fact = facts.environments[environment.path]
        if isinstance(fact, Unmeasured):
            yield environment.path, _unreadable(fact)
        elif fact is None:
            yield environment.path, "not installed"
        elif fact["digest"] != fact["recorded"]:
            yield environment.path, "changed since it was installed"
        elif not fact["runs"]:
            yield environment.path, "its interpreter is gone"
        elif environment.path in facts.altered:
            yield from _altered(environment.path, facts)


def _altered(environment: str, facts: Facts) -> Iterator[Difference]:
    altered = facts.altered[environment]
    if isinstance(altered, Unmeasured):
        yield environment, _unreadable(altered)
    else:
        yield from ((path, f"{how} ({package})") for package, path, how in altered or ())


def _link(target: str, fact: str | None) -> str | None:
    if fact is None:
        return "missing"
    return f"points at {fact}, not {target}" if fact != target else None


def _sshd(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for option, wanted in state.sshd.items():
        fact = facts.sshd[option]
        if fact is None:
            yield f"sshd {option}", "no sshd here that knows it"
        elif not isinstance(fact, Unmeasured) and fact != wanted:
            yield f"sshd {option}", f"comes to {fact}, not {wanted}"


def _hold(_wanted: None, fact: bool | None) -> str | None:
    return "is not held" if fact is False else None


def _communications(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for communication in state.communications:
        fact = facts.communications[key(communication.question)]
        if fact is None or isinstance(fact, Unmeasured):
            reason = fact.reason if fact is not None else "no answer"
            yield "communication", f"cannot be decided: {reason}"
            continue
        of = f" (profile {fact['profile']} over {fact['interface']})"
        for wanted in fact["files"]:
            found = facts.files[wanted["path"]]
            if isinstance(found, Unmeasured):
                yield wanted["path"], _unreadable(found)
            elif different := _how_differs_from_wanted(wanted, found):
                yield wanted["path"], different + of


def _how_differs_from_wanted(wanted: CommunicationFile, found: FileReading | None) -> str | None:
    if found is None:
        return "missing"
    if wanted["is_foreign"]:
        return "written by somebody else; it will be kept as " + wanted["path"] + ".before-pylaunch"
    if found["sha256"] != wanted["sha256"]:
        return "content differs"
    return _mode_or_owner(found, "0644")


def _absent_path(_wanted: None, fact: bool | None) -> str | None:
    return "is there, and must not be" if fact else None


def _mode(wanted: str, fact: str | None) -> str | None:
    if fact is None:
        return "missing"
    return None if fact == wanted else f"mode is {fact}, not {wanted}"


def _reports(state: RoleState, facts: Facts) -> Iterator[Difference]:
    for path in state.reports:
        fact = facts.reports[path]
        if isinstance(fact, Unmeasured):
            how = "; ask for it with --ask-become-pass (-K)" if "a password is required" in fact.reason else ""
            yield state.role, _unreadable(fact) + how
        elif fact is None:
            yield state.role, "not in force"
        else:
            for difference in fact:
                yield state.role, difference


def _unreadable(fact: Unmeasured) -> str:
    return f"cannot be read: {fact.reason}"


def _gpu_differences(state: RoleState, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield (subject, difference). No role changes these: the driver version is the administrator's decision."""
    for wanted in state.gpus:
        fact = facts.gpus["all"]
        if isinstance(fact, Unmeasured):
            yield "gpu", f"cannot be looked at: {fact.reason}"
        elif fact is not None:
            yield from _driver(wanted, fact)
            yield from _persistence(wanted, fact)
            yield from _fabric_manager(wanted, fact)
            yield from _peer_memory(wanted, fact)


def _gpu_remarks(state: RoleState, facts: Facts) -> Iterator[str]:
    for wanted in state.gpus:
        fact = facts.gpus["all"]
        if fact is None:
            yield "not applicable: no NVIDIA device"
        elif isinstance(fact, Unmeasured) or fact["driver"] is None:
            continue
        elif wanted.persistence and fact["persistence"] is None:
            yield "persistence mode was not looked at: no nvidia-smi"


def _driver(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if fact["driver"] is None:
        yield "gpu driver", f"is not loaded, and there are {fact['gpus']} devices"
        return
    if wanted.driver and fact["driver"] != wanted.driver:
        yield "gpu driver", f"is {fact['driver']}, not {wanted.driver}"
    if fact["library"] is not None and fact["library"] != fact["driver"]:
        yield "gpu driver", f"is {fact['driver']}, and its libraries say {fact['library']}: reboot after an upgrade"


def _persistence(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if wanted.persistence and fact["persistence"] not in (None, wanted.persistence):
        yield "gpu persistence", f"is {fact['persistence']}, not {wanted.persistence}: start nvidia-persistenced"


def _fabric_manager(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if wanted.fabric_manager != "auto" or not fact["nvswitches"] or fact["driver"] is None:
        return
    if fact["fabric_manager"] is None:
        yield "fabric manager", f"is not installed, and there are {fact['nvswitches']} NVSwitches"
    elif fact["fabric_manager"] != fact["driver"]:
        yield "fabric manager", f"is {fact['fabric_manager']}, and must be the driver's version {fact['driver']}"


def _peer_memory(wanted: DesiredGpu, fact: GpuReading) -> Iterator[tuple[str, str]]:
    if wanted.peer_memory != "auto" or not fact["infiniband"] or fact["peermem"]:
        return
    if not exports_dma_buf(open_module=fact["open_module"], kernel=fact["kernel"]):
        yield "nvidia_peermem", "is not loaded, so the network cannot reach device memory: modprobe nvidia_peermem"
