"""The manifests of hosts: what each role manages there, and how a host differs from what it was provisioned with."""

from collections.abc import Container, Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import manifest, python_env
from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.model.cluster import Cluster
from pylaunch.probe.answers import Unmeasured, value, values
from pylaunch.probe.ask import NoPython, Unreachable, ask, understood
from pylaunch.probe.program import probe
from pylaunch.protocol.readings.hosts import ManifestEntry


@dataclass(frozen=True, order=True)
class Change:
    """One difference between a host and what a role manages there."""

    role: str
    """"" for the interpreter that all roles need."""

    subject: str
    """A path, a package, a unit, a kernel setting."""

    difference: str


@dataclass(frozen=True, order=True)
class Note:
    """A setting of a role that this host cannot have; it stays as it is."""

    role: str
    text: str


@dataclass(frozen=True)
class HostState:
    """The manifest of a host, compared with the host."""

    entries: Mapping[str, ManifestEntry] = field(default_factory=dict)
    """By role."""

    unreadable: str | None = None
    altered: tuple[tuple[str, ...], ...] = ()
    """Distribution, path and "edited", "missing" or "added", if all files of the environment were read."""


Answer = HostState | Unreachable | NoPython


def ask_manifests(
    cluster: Cluster, unprivileged: Container[str] = (), *, sudo_password: str | None = None, deep: bool = False
) -> dict[str, Answer]:
    """Return the state of every host of `cluster`, on some of which roles run without root; with `deep`, all files of
    its Python environment are read.

    `sudo_password` is for programs of roles, which run as root; it travels inside the program, which hosts read from
    stdin.
    """
    questions = {
        host.name: {
            **manifest.roles.ask(
                {
                    "env_root": host.env_root,
                    "is_privileged": host.name not in unprivileged,
                    "sudo_password": sudo_password,
                }
            ),
            **(python_env.contents.ask(replace(host, python=None).rank_python) if deep else {}),
        }
        for host in cluster.hosts
    }
    answers = ask(cluster, {name: probe(question) for name, question in questions.items()})
    return {
        name: answer
        if isinstance(answer, Unreachable | NoPython)
        else understood(answer, lambda answered, name=name: _state(values(answered, questions[name]), cluster.env_name))  # type: ignore[misc]
        for name, answer in answers.items()
    }


def _state(found: Mapping[Any, Any], env_name: str | None) -> HostState:
    entries = value(found, manifest.roles)
    if isinstance(entries, Unmeasured):
        return HostState({}, entries.reason)
    # A role may have an entry for each environment, as "python_env/vision".
    own = {name.partition("/")[0]: entry for name, entry in entries.items() if name.partition("/")[2] == env_name}
    altered = found.get(python_env.contents, ())
    return HostState({**entries, **own}, None, () if isinstance(altered, Unmeasured) else tuple(map(tuple, altered)))


def changes_of(wanted: Mapping[str, str], state: HostState) -> tuple[Change, ...]:
    """Return how a host differs from `wanted`, role → digest of its inputs. Pure."""
    changes: list[Change] = []
    for role, inputs in wanted.items():
        if (entry := state.entries.get(role)) is None:
            changes.append(Change(role, "manifest", state.unreadable or "has no record of this role"))
            continue
        if entry["inputs"] != inputs:
            changes.append(Change(role, "inputs", "are not those that the host was provisioned with"))
        changes += drift(role, entry)
    return tuple(changes)


def drift(role: str, entry: ManifestEntry) -> list[Change]:
    """Return how a host differs from what `role` left there. Pure."""
    reported = entry["reported"]
    if isinstance(reported, str):
        how = "; ask for it with --ask-become-pass (-K)" if "a password is required" in reported else ""
        reported = [f"cannot be read: {reported}{how}"]
    return [
        *(Change(role, subject, difference) for subject, difference in entry["differences"]),
        *(Change(role, role, difference) for difference in reported),
    ]


def notes_of(wanted: Mapping[str, str], state: HostState) -> tuple[Note, ...]:
    """Return the settings that a host cannot have, as its roles noted them."""
    return tuple(Note(role, text) for role, entry in state.entries.items() if role in wanted for text in entry["notes"])
