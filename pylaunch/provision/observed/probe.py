"""Facts of every host for provisioning: the questions to the probe, and the answers, decoded."""

from collections.abc import Mapping, Sequence
from typing import Any

from pylaunch.agent.probe.readers.hosts import host_facts, network
from pylaunch.agent.probe.readers.roles import environments, files, gpu_node, packages, services, settings
from pylaunch.agent.probe.registry import Reader
from pylaunch.model.cluster import Cluster
from pylaunch.probe import ask as probe_ask
from pylaunch.probe import program
from pylaunch.probe.answers import Unmeasured, value, values
from pylaunch.probe.ask import TIMEOUT_S, Answered, Asking, NoPython, Unreachable, ask
from pylaunch.provision.observed.facts import Answers, Facts, HostFacts, key

Answer = Facts | Unreachable | NoPython

_READERS: Mapping[str, Reader[list[Any], Any]] = {
    "packages": packages.installed,
    "holds": packages.held,
    "locks": packages.lock_holder,
    "files": files.file,
    "exists": files.exists,
    "modes": files.mode,
    "blocks": files.block,
    "lines": files.lines,
    "links": files.link,
    "contents": files.text,
    "filesystems": files.filesystem,
    "sysctls": settings.sysctl,
    "limits": settings.limit,
    "services": services.units,
    "environments": environments.installed,
    "altered": environments.altered,
    "communications": network.communication,
}
"""Subject → the reader of its list of questions."""

_HOST_FACTS = (
    host_facts.own, host_facts.system, host_facts.hardware, host_facts.network, host_facts.gpus,
    host_facts.environment, host_facts.distributions, host_facts.packages, host_facts.login, host_facts.sshd,
)  # fmt: skip
"""Readers of the groups of host facts, in the order of a record. A group's name is that of its reader."""


def probe_hosts(
    cluster: Cluster,
    asked: Mapping[str, Mapping[str, Sequence[Any]]],
    *,
    sudo_password: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, Answer]:
    """Return the answer of every host of `cluster` to its own questions (host → subject → questions).

    `sudo_password` is for readings that only root can take; it travels inside the program, which hosts read from stdin.
    """
    questions = {name: readers_asked(asked[name], sudo_password) for name in cluster.names}
    programs = {name: program.probe(questions[name]) for name in cluster.names}

    def understood(name: str, answered: Answered | Unreachable | NoPython) -> Answer:
        if isinstance(answered, Unreachable | NoPython):
            return answered
        return probe_ask.understood(answered, lambda answer: parse_facts(asked[name], answer))

    answers = ask(cluster, programs, how=Asking(timeout_s))
    return {name: understood(name, answered) for name, answered in answers.items()}


def host_facts_of(cluster: Cluster, timeout_s: float) -> dict[str, HostFacts | str]:
    """Return the facts of every host of `cluster`, in groups; the reason for one that does not report them in time."""
    asked = {host.name: {"host_facts": [host.rank_python]} for host in cluster.hosts}
    found: dict[str, HostFacts | str] = {}
    for name, answer in probe_hosts(cluster, asked, timeout_s=timeout_s).items():
        match answer:
            case Facts():
                found[name] = answer.host_facts
            case NoPython(path):
                found[name] = f"no Python at {path}"
            case Unreachable():
                found[name] = answer.reason
    return found


def readers_asked(asked: Mapping[str, Sequence[Any]], sudo_password: str | None = None) -> dict[str, Any]:
    """Return reader → question for `asked` (subject → questions): a host receives only the readers that it needs."""
    found = settings.identity.ask(None)
    for subject, reader in _READERS.items():
        if questions := asked.get(subject):
            found |= reader.ask(list(questions))
    if options := asked.get("sshd"):
        found |= services.sshd.ask({"options": list(options), "sudo_password": sudo_password})
    if paths := asked.get("reports"):
        found |= services.report.ask([{"path": path, "sudo_password": sudo_password} for path in paths])
    if asked.get("gpus"):
        found |= gpu_node.devices.ask(None)
    for python in asked.get("host_facts", ()):
        of_python = (host_facts.environment, host_facts.distributions)
        found |= {str(group): python if group in of_python else None for group in _HOST_FACTS}
    return found


def parse_facts(asked: Mapping[str, Sequence[Any]], answered: Answered) -> Facts:
    """Return the facts in an answer to `asked` (subject → questions). Raises one of MALFORMED."""
    found = values(answered, readers_asked(asked))
    identity = value(found, settings.identity)
    if isinstance(identity, Unmeasured):
        raise ValueError(f"its identity could not be read: {identity.reason}")

    def answers(subject: str, reader: Reader[Any, Any]) -> Answers[Any]:
        keys = [key(question) for question in asked.get(subject, ())]
        taken = value(found, reader) if reader in found else []
        return dict.fromkeys(keys, taken) if isinstance(taken, Unmeasured) else dict(zip(keys, taken, strict=True))

    return Facts(
        **identity,
        **{subject: answers(subject, reader) for subject, reader in _READERS.items()},
        sshd=answers("sshd", services.sshd),
        reports=answers("reports", services.report),
        gpus=dict.fromkeys(asked.get("gpus", ()), found.get(gpu_node.devices)),
        host_facts=_host_facts(found),
    )


def _host_facts(found: Mapping[str, Any]) -> HostFacts:
    groups: dict[str, Mapping[str, str | None]] = {}
    for reader in _HOST_FACTS:
        if reader in found:
            taken = value(found, reader)
            name = reader.partition(".")[2]
            groups[name] = {"unreadable": taken.reason} if isinstance(taken, Unmeasured) else taken
    return groups
