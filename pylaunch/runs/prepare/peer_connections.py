"""Connections between the nodes of a run, tried once all of them are prepared: ranks will open the same.

Every agent listens on an ephemeral port, as NCCL and gloo do. Each tries the agents of others, in both directions. A
packet that a firewall drops costs TRY_S of `agent/peers.py`; connections that succeed cost one round trip.
"""

from collections.abc import Mapping, Sequence

from pylaunch import protocol
from pylaunch.runs.connect.fleet import Fleet

ALL_PAIRS = 32
"""Up to this many nodes, every node tries every other: 992 connections, 31 from each."""

ANSWER_S = 6.0
"""Time-out for the answer of an agent: three times that of a connection which nobody accepts."""


def targets(hosts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the peers that each of `hosts` (in rank order) tries: all, or beyond ALL_PAIRS hosts the first one and the
    two neighbours in the ring."""
    count = len(hosts)
    found = {}
    for place, host in enumerate(hosts):
        tried = hosts if count <= ALL_PAIRS else (hosts[0], hosts[place - 1], hosts[(place + 1) % count])
        found[host] = tuple(name for name in dict.fromkeys(tried) if name != host)
    return found


async def try_connections(fleet: Fleet, ports: Mapping[str, int]) -> dict[str, Mapping[str, str]]:
    """Return the results of the connections: host → peer → one of `agent.neighbours.ENDS`.

    `ports`: where the agent of each host listens, in rank order; 0 is nowhere, and nobody tries it. Hosts that did not
    answer are missing. An interrupt, and what else the nodes report meanwhile, is left in the fleet's inbox.
    """
    wanted = targets([host for host, port in ports.items() if port])
    orders = {host: protocol.TryPeers({peer: ports[peer] for peer in peers}) for host, peers in wanted.items() if peers}
    await fleet.send(orders)
    answers = await fleet.answers(protocol.PeersTried, orders, ANSWER_S)
    return {
        host: {peer: end for peer, end in tried.ends.items() if peer in wanted.get(host, ())}
        for host, tried in answers.items()
    }
