"""Facts about a run: versions, environment of ranks, hosts as they are now."""

import platform
import sys
from collections.abc import Mapping

from pylaunch import __version__
from pylaunch.base.dataclass import dataclass
from pylaunch.checks import suite
from pylaunch.checks.result import REACH
from pylaunch.checks.selection import select
from pylaunch.checks.wanted import wanted_by
from pylaunch.errors import PylaunchError
from pylaunch.model.cluster import Connection
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import RunRecord
from pylaunch.model.secret import MASK
from pylaunch.probe.ask import Asking
from pylaunch.probe.host_facts import HostFacts, host_facts_of
from pylaunch.render import render
from pylaunch.terminal.version import PACKAGES, package_version

DEADLINE_S = 20.0
"""For the answers of the hosts, facts and checks each."""


@dataclass(frozen=True)
class HostsNow:
    """Hosts of a run, asked after it."""

    facts: Mapping[str, HostFacts]
    """Facts by host and group, of the hosts that answered."""

    findings: tuple[Finding, ...]
    """Findings of `pylaunch check` on them."""

    unreachable: Mapping[str, str]
    """Reasons of the other hosts."""


def versions(record: RunRecord) -> dict[str, object]:
    """Return the versions of pylaunch, its Python, its system and its packages, and the agent of the run."""
    return {
        "pylaunch": __version__,
        "agent": record.agent,
        "python": sys.version,
        "system": platform.platform(),
        "packages": {name: package_version(name) for name in PACKAGES},
    }


def environment(record: RunRecord) -> dict[str, object] | str:
    """Return the variables of every rank by layer; a reason where this machine cannot know them.

    Layers that only a node knows (its user, its route, its node file) are missing. Values of secrets are masked.
    """
    if record.is_foreign:
        return "another controller started the run, and nodes do not keep the environment"
    try:
        rendered = render(record.plan)
    except PylaunchError as error:
        return error.message
    secrets = dict.fromkeys(record.plan.job.secrets, MASK)
    return {
        "secrets": secrets,
        "nodes": {
            node.host.name: {
                "launcher": list(command.launcher),
                "layers": {layer.value: dict(values) for layer, values in command.layers.items()},
                "ranks": {
                    str(rank.rank): {"argv": list(each.argv), "identity": dict(each.env)}
                    for rank, each in zip(node.ranks, command.ranks, strict=False)
                },
            }
            for node, command in rendered
        },
    }


def hosts_now(plan: RunPlan, deadline_s: float = DEADLINE_S) -> HostsNow:
    """Ask the hosts of `plan` for their facts, and run the checks of `pylaunch check` on those that answer."""
    unknown = [node.host.name for node in plan.nodes if node.host.connection is Connection.NONE]
    answers = host_facts_of(plan.cluster.only(set(plan.cluster.names) - set(unknown)), deadline_s)
    facts = {name: answer for name, answer in answers.items() if not isinstance(answer, str)}
    unreachable = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    unreachable |= dict.fromkeys(unknown, "not in the inventory, so it is not connected to")
    if not facts:
        return HostsNow({}, (), unreachable)
    checks = tuple(each for each in select(suite.CHECKS) if each.id != REACH)
    survey = suite.take(plan.cluster.only(facts), wanted_by(plan), checks, how=Asking(deadline_s))
    return HostsNow(facts, suite.judge(survey, checks), unreachable)
