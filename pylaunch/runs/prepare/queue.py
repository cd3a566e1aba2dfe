"""The queue of a start for the devices and the port of all its nodes. A start that waits holds nothing.

It asks its nodes who holds the leases, with longer and longer pauses, and tries when they are free. Another start may
be faster: then it waits again.
"""

import asyncio
import random
from collections.abc import Callable, Mapping

from pylaunch.agent.probe.readers.hosts import occupants
from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.hostset import fold
from pylaunch.model.plan import NodePlan, RunPlan
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


async def wait_until_free(plan: RunPlan, report: Callable[[list[str]], None]) -> None:
    """Wait until nothing that `plan` needs is held on any of its nodes.

    `report` receives what blocks the start, in words, when that changes. Raises ClusterNotReadyError when a node cannot
    be asked.
    """
    pause_s, reported = FIRST_S, list[str]()
    while found := words(await _blocked(plan)):
        if found != reported:
            report(found)
            reported = found
        # Starts that lost the same race try again at different times.
        await asyncio.sleep(pause_s * random.uniform(0.7, 1.3))
        pause_s = min(MOST_S, GROWS * pause_s)


async def _blocked(plan: RunPlan) -> dict[str, Blocked]:
    """Return what others hold on each node. Raises ClusterNotReadyError when a node cannot be asked."""
    programs = {node.host.name: probe(_question(node, plan)) for node in plan.nodes}
    found, failed = understood_all(await gather_answers(plan.cluster, programs, ANSWERS_S), plan.cluster, _held)
    for host, why in failed.items():
        raise ClusterNotReadyError(f"{host}: {why.reason}", hint=why.hint)
    return found


def _question(node: NodePlan, plan: RunPlan) -> Mapping[str, object]:
    port = plan.job.rendezvous_port
    ports = [port] if port is not None and node is plan.coordinator else []
    return occupants.held.ask({"root": node.host.node_root, "devices": list(node.devices), "ports": ports})


def _held(answered: Answered) -> Blocked:
    reading = answers.value(answers.values(answered, (occupants.held,)), occupants.held)
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
