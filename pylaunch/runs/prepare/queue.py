"""The queue of a start for the devices and the port of all its nodes. A start that waits holds nothing.

It asks its nodes who holds the leases, with longer and longer pauses, and tries when they are free. Another start may
be faster: then it waits again. A start that may run on any of several hosts takes the first that are free.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

from pylaunch.agent.probe.readers.hosts import leftovers
from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.hostset import fold
from pylaunch.model.plan import NodePlan, RunPlan, on_hosts
from pylaunch.probe import answers
from pylaunch.probe.answers import Unmeasured
from pylaunch.probe.ask import Answered, gather_answers, understood_all
from pylaunch.probe.program import probe

FIRST_S, MOST_S, GROWS = 2.0, 30.0, 1.5
"""First pause between two questions, longest one, and the factor from one to the next."""

ANSWERS_S = 60.0
"""For a host to answer: of hundreds, the last one is late where this machine is busy."""

Blocked = tuple[tuple[str, str], ...]
"""What is held on one node: ("device 3", its holder), or ("", why the node cannot be asked)."""


@dataclass(frozen=True)
class Turn:
    """Hosts for which a start waits."""

    hosts: tuple[Host, ...] = ()
    """Hosts of which any can be a node of the plan; () for those of the plan alone."""

    def among(self, cluster: Cluster, plan: RunPlan) -> "Turn":
        """Return the turn on all hosts of `cluster` with as many devices as those of `plan`, where any of them will do.

        The hosts of a run that restarts are those of its plan.
        """
        counts = {len(node.host.devices) for node in plan.nodes}
        alike = tuple(host for host in cluster.hosts if {len(host.devices)} == counts)
        is_fixed = plan.job.max_restarts > 0 or counts == {0}
        return self if is_fixed or len(alike) <= len(plan.nodes) else replace(self, hosts=alike)


async def free_hosts(turn: Turn, plan: RunPlan, report: Callable[[tuple[str, ...]], None]) -> tuple[Host, ...]:
    """Wait until nothing that `plan` needs is held on as many hosts as it needs; return these hosts.

    `report` receives what blocks the start, in words, when that changes.

    Raises ClusterNotReadyError when a node cannot be asked.
    """
    nodes = on_hosts(plan, turn.hosts or plan.cluster.hosts).nodes
    wanted, pause_s, reported = len(plan.nodes), FIRST_S, [""]
    while True:
        blocked = await _blocked(nodes, plan, turn)
        free = [node.host for node in nodes if not blocked[node.host.name]]
        if len(free) >= wanted:
            return tuple(free[:wanted])
        names = [node.host.name for node in nodes]
        found = [*([f"any {wanted} of {fold(names)}"] if turn.hosts else []), *words(blocked)]
        if found != reported:
            report(tuple(found))
            reported = found
        # Starts that lost the same race try again at different times.
        await asyncio.sleep(pause_s * random.uniform(0.7, 1.3))
        pause_s = min(MOST_S, GROWS * pause_s)


async def _blocked(nodes: Sequence[NodePlan], plan: RunPlan, turn: Turn) -> dict[str, Blocked]:
    """Return what others hold on each node. Raises ClusterNotReadyError when too few nodes can be asked."""
    cluster = replace(plan.cluster, hosts=tuple(node.host for node in nodes))
    programs = {node.host.name: probe(_question(node, plan, turn)) for node in nodes}
    found, failed = understood_all(await gather_answers(cluster, programs, ANSWERS_S), cluster, _held)
    if len(nodes) - len(failed) < len(plan.nodes):
        host, why = next(iter(failed.items()))
        raise ClusterNotReadyError(f"{host}: {why.reason}", hint=why.hint)
    return {**found, **{host: (("", why.reason),) for host, why in failed.items()}}


def _question(node: NodePlan, plan: RunPlan, turn: Turn) -> Mapping[str, object]:
    port = plan.job.rendezvous_port
    ports = [port] if port is not None and (turn.hosts or node.node_rank == 0) else []
    return leftovers.held.ask({"root": node.host.node_root, "devices": list(node.devices), "ports": ports})


def _held(answered: Answered) -> Blocked:
    reading = answers.value(answers.values(answered, (leftovers.held,)), leftovers.held)
    if isinstance(reading, Unmeasured):
        return (("", reading.reason),)
    devices = sorted(reading["devices"].items(), key=lambda each: int(each[0]))
    held = [(f"device {index}", holder["words"]) for index, holder in devices]
    return (*held, *((f"port {port}", holder["words"]) for port, holder in reading["ports"].items()))


def words(blocked: Mapping[str, Blocked]) -> list[str]:
    """Return blocking runs, hosts and devices folded: "gpu[01-02]: devices 0-3, run 7f3a of anna since 12:01"."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for host, each in blocked.items():
        held: dict[str, list[str]] = {}
        for what, by in each:
            held.setdefault(by, []).append(what)
        for by, found in held.items():
            by_reason.setdefault((_listed(found), by), []).append(host)
    return [f"{fold(hosts)}: {f'{what}, ' if what else ''}{by}" for (what, by), hosts in by_reason.items()]


def _listed(found: list[str]) -> str:
    devices = [int(number) for what in found if (number := what.removeprefix("device ")) != what and number.isdecimal()]
    parts = [f"device{'s' if len(devices) > 1 else ''} {fold(map(str, devices)).strip('[]')}"] if devices else []
    return ", ".join([*parts, *(what for what in found if what.startswith("port "))])
