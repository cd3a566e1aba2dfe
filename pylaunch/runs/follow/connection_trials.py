"""Trials of the connections between agents during a run: cheap probes of the network when something is wrong."""

from __future__ import annotations

from collections.abc import Collection

from pylaunch import protocol
from pylaunch.model.plan import RunPlan
from pylaunch.runs.connect.fleet import Fleet, NodeSilent
from pylaunch.runs.prepare.peer_connections import targets

MOST_TRIALS = 3
"""Trials of the connections between the agents before the first victim."""


class ConnectionTrials:
    """Lets the agents connect to each other again, after the first victim and when a node is silent."""

    def __init__(self, plan: RunPlan, fleet: Fleet) -> None:
        self._plan = plan
        self._fleet = fleet
        self._trials = 0

    async def after(self, message: object, live: Collection[str]) -> None:
        """Begin a trial between the `live` hosts if `message` calls for one."""
        is_victim = isinstance(message, protocol.RankEnd) and message.symptom != ""
        if not (is_victim or isinstance(message, NodeSilent)) or self._trials >= MOST_TRIALS:
            return
        self._trials = MOST_TRIALS if is_victim else self._trials + 1
        able = set(self._fleet.knowing(protocol.TRY_AGAIN)).intersection(live)
        wanted = targets([node.host.name for node in self._plan.nodes])
        await self._fleet.send({host: protocol.TryPeers(dict.fromkeys(wanted[host], 0)) for host in sorted(able)})
