"""Where the other agents of a run are found, and which of them a node looks after."""

from __future__ import annotations

import socket
import time
from typing import Dict, List, Tuple

WATCHED = 3
"""How many nodes before it, and how many after it, a node exchanges words with all the time: the cost of a node is the
same in every size of cluster, and each node is watched by six others."""

LOOK_UP_S = 2.0
"""How long all names together may take to be looked up."""


def neighbours(me: str, names: List[str]) -> List[str]:
    """Those of `names` (all nodes, in rank order, as a ring) that `me` watches."""
    if me not in names:
        return []
    place, count = names.index(me), len(names)
    around = [names[(place + step) % count] for step in range(-WATCHED, WATCHED + 1)]
    return [name for name in dict.fromkeys(around) if name != me]


def look_up(addresses: Dict[str, str]) -> Dict[str, Tuple[socket.AddressFamily, str]]:
    """The address of each node as a number; nodes whose names mean nothing here, or not in time, are left out."""
    found: Dict[str, Tuple[socket.AddressFamily, str]] = {}
    until = time.monotonic() + LOOK_UP_S
    for name, address in addresses.items():
        flags = 0 if time.monotonic() < until else socket.AI_NUMERICHOST
        try:
            family, _, _, _, place = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM, flags=flags)[0]
        except OSError:
            continue
        found[name] = (family, str(place[0]))
    return found


def listen() -> socket.socket | None:
    """A listening TCP socket on a port that the kernel chooses, for IPv6 and IPv4 where there are both.

    None when there is none to be had: the run goes without words between its agents, which the controller is told.
    """
    try:
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)
    except OSError:
        pass  # Compiled in, and switched off on this node.
    try:
        return socket.create_server(("", 0), backlog=256)
    except OSError:
        return None
