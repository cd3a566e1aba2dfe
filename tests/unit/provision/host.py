"""Facts of a host in its desired state, except for the answers that a test gives."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pylaunch.agent.probe.readers.roles import gpu_node, services, settings
from pylaunch.agent.probe.registry import EachReader, Reader
from pylaunch.provision.observed.facts import Facts
from pylaunch.provision.observed.probe import _READERS, parse_facts
from pylaunch.provision.state import PACKAGE_LOCK, DesiredCommunication, RoleState, questions

DEBIAN = {"name": "Debian GNU/Linux 12 (bookworm)", "ids": ["debian"]}

EVERYTHING = (1 << 41) - 1
"""All capabilities, as on a real machine."""


def converged(
    states: Sequence[RoleState], found: Mapping[str, Mapping[str, Any]] | None = None, *, capabilities: int = EVERYTHING
) -> Facts:
    """Facts of a host that is as `states` want it, except for `found`: subject → what is asked about → answer."""
    wanted: dict[str, dict[str, Any]] = {
        "packages": {name: "1.0" for state in states for name in state.packages},
        "files": {file.path: as_wanted(file.content, file.mode) for state in states for file in state.files},
        "exists": {
            **{file.only_where: True for state in states for file in state.files if file.only_where},
            **{path: False for state in states for path in state.absent_paths},
        },
        "modes": {path: mode for state in states for path, mode in state.modes.items()},
        "blocks": {block.path: block.content.rstrip("\n") for state in states for block in state.blocks},
        "lines": {line.path: [] for state in states for line in state.absent_lines},
        "sysctls": {
            key: {"value": value, "read_only": False} for state in states for key, value in state.sysctls.items()
        },
        "limits": {name: {"soft": value, "hard": value} for state in states for name, value in state.limits.items()},
        "filesystems": {each.path: each.minimum_mib for state in states for each in state.filesystems},
        "services": {
            **{unit: unit_as("enabled", "active") for state in states for unit in state.services},
            **{unit: None for state in states for unit in state.absent_services},
        },
        "environments": {
            each.path: {"recorded": "d", "digest": "d", "runs": True} for state in states for each in state.environments
        },
        "communications": {each.paths[0]: as_decided(each.paths) for each in each_communication(states)},
        "links": {link.path: link.target for state in states for link in state.links},
        "altered": {},
        "sshd": {option: value for state in states for option, value in state.sshd.items()},
        "holds": {name: True for state in states for name in state.holds},
        "gpus": {"all": None},
        "reports": {path: [] for state in states for path in state.reports},
        "locks": {PACKAGE_LOCK: None},
    }
    wanted["files"].update({path: as_wanted("", "0644") for each in each_communication(states) for path in each.paths})
    asked = questions(states)
    by_subject: dict[str, list[Any]] = {}
    for subject, each in asked.items():
        answers = {**wanted[subject], **(found or {}).get(subject, {})}
        by_subject[subject] = [answers[ask if isinstance(ask, str) else ask["path"]] for ask in each]
    return parse_facts(asked, answered(by_subject, capabilities=capabilities))


def answered(by_subject: Mapping[str, Sequence[Any]], *, capabilities: int = EVERYTHING) -> dict[str, Any]:
    """Return the answer of a host with the values `by_subject`, as its probe sends it."""
    identity = {"hostname": "n1", "capabilities": capabilities, "distribution": DEBIAN}
    readers: dict[str, Reader[Any, Any]] = {**_READERS, "sshd": services.sshd, "reports": services.report}
    readings: dict[str, Any] = {settings.identity: {"value": identity}}
    for subject, values in by_subject.items():
        if subject == "gpus":
            readings[gpu_node.devices] = {"value": values[0] if values else None}
            continue
        reader, failed = readers[subject], [each for each in values if isinstance(each, dict) and "unmeasured" in each]
        if isinstance(reader, EachReader):
            readings[reader] = {"value": [each if each in failed else {"value": each} for each in values]}
        else:
            readings[reader] = failed[0] if failed else {"value": values}
    return {"readings": {name: {**reading, "seconds": 0.0} for name, reading in readings.items()}}


def each_communication(states: Sequence[RoleState]) -> list[DesiredCommunication]:
    """Network settings that all of `states` want of a host."""
    return [each for state in states for each in state.communications]


def as_decided(paths: Sequence[str], *, foreign: bool = False) -> dict[str, Any]:
    """Answer of a host whose files must be empty."""
    files = [{"path": path, "sha256": hashlib.sha256(b"").hexdigest(), "is_foreign": foreign} for path in paths]
    return {"profile": "ethernet", "interface": "eth0", "files": files}


def as_wanted(content: str, mode: str) -> dict[str, str]:
    """A root-owned file."""
    digest = hashlib.sha256(content.encode()).hexdigest()
    return {"sha256": digest, "mode": mode, "owner": "root", "group": "root"}


def unit_as(enabled: str, active: str, condition: str = "yes") -> dict[str, str]:
    """A unit that exists."""
    return {"load": "loaded", "enabled": enabled, "active": active, "condition": condition}
