"""Facts of hosts that no role manages, in groups."""

from collections.abc import Mapping
from typing import Any

from pylaunch.agent.probe.readers.hosts import host_facts
from pylaunch.model.cluster import Cluster
from pylaunch.probe.answers import Unmeasured, values
from pylaunch.probe.ask import Asking, ask, understood_all
from pylaunch.probe.program import probe

HostFacts = Mapping[str, Mapping[str, str | None]]
"""Group → fact → value. A group that could not be read is {"unreadable": reason}."""

_OF_PYTHON = (host_facts.environment, host_facts.distributions)
_GROUPS = (
    host_facts.own, host_facts.system, host_facts.hardware, host_facts.network, host_facts.gpus,
    host_facts.environment, host_facts.distributions, host_facts.packages, host_facts.login, host_facts.sshd,
)  # fmt: skip
"""Readers of the groups, in the order of a record. A group's name is that of its reader."""


def host_facts_of(cluster: Cluster, timeout_s: float) -> dict[str, HostFacts | str]:
    """Return the facts of every host of `cluster`; the reason for one that does not report them in time."""
    questions = {
        host.name: {str(group): host.rank_python if group in _OF_PYTHON else None for group in _GROUPS}
        for host in cluster.hosts
    }
    programs = {name: probe(question) for name, question in questions.items()}
    answers = ask(cluster, programs, how=Asking(timeout_s))
    asked = dict.fromkeys(map(str, _GROUPS))
    facts, unreachable = understood_all(answers, cluster, lambda answered: _facts(values(answered, asked)))
    return {name: facts[name] if name in facts else unreachable[name].reason for name in cluster.names}


def _facts(found: Mapping[str, Any]) -> HostFacts:
    taken = {group.partition(".")[2]: found[group] for group in _GROUPS}
    return {
        name: {"unreadable": facts.reason} if isinstance(facts, Unmeasured) else facts for name, facts in taken.items()
    }
