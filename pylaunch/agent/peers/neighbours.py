"""Where the other agents of a run are found, and which of them a node looks after."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from typing import Callable, Tuple

WATCHED = 3
"""How many nodes before it, and how many after it, a node exchanges words with all the time: the cost of a node is the
same in every size of cluster, and each node is watched by six others."""

LOOK_UP_S = 2.0
"""How long all names together may take to be looked up."""

TRY_S = 2.0
"""How long a connection that is tried may take. Linux repeats a lost SYN after 1 s: one lost packet is no block."""

OK, SILENT, REFUSED, NAMELESS, UNREACHABLE = "ok", "silent", "refused", "nameless", "unreachable: "
ENDS = (OK, SILENT, REFUSED, NAMELESS, UNREACHABLE)
"""How a connection that is tried ends; the last is followed by the system's reason."""

Target = Tuple[socket.AddressFamily, str, int]


def neighbours(me: str, names: list[str]) -> list[str]:
    """Those of `names` (all nodes, in rank order, as a ring) that `me` watches."""
    if me not in names:
        return []
    place, count = names.index(me), len(names)
    around = [names[(place + step) % count] for step in range(-WATCHED, WATCHED + 1)]
    return [name for name in dict.fromkeys(around) if name != me]


def look_up(addresses: dict[str, str]) -> dict[str, tuple[socket.AddressFamily, str]]:
    """The address of each node as a number; nodes whose names mean nothing here, or not in time, are left out."""
    found: dict[str, tuple[socket.AddressFamily, str]] = {}
    until = time.monotonic() + LOOK_UP_S
    for name, address in addresses.items():
        flags = 0 if time.monotonic() < until else socket.AI_NUMERICHOST
        try:
            family, _, _, _, place = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM, flags=flags)[0]
        except (OSError, UnicodeError):  # The latter for a name that is no domain name at all.
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


def try_connections(
    targets: dict[str, Target], on_incoming: Callable[[], None], listener: socket.socket
) -> dict[str, str]:
    """How a TCP connection to each of `targets` ends, all at once, within TRY_S. Nothing is sent.

    `on_incoming` is called for connections that reach `listener` meanwhile.
    """
    ends: dict[str, str] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        for name, (family, address, port) in targets.items():
            try:
                connecting = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:  # No descriptor is left, or the family is switched off here.
                ends[name] = UNREACHABLE + os.strerror(error.errno or 0)
                continue
            connecting.setblocking(False)
            connecting.connect_ex((address, port))  # Its end shows when it can be written.
            selector.register(connecting, selectors.EVENT_WRITE, name)
        until = time.monotonic() + TRY_S
        while len(ends) < len(targets) and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.data is None:
                    on_incoming()
                    continue
                assert isinstance(key.fileobj, socket.socket)
                ends[key.data] = _end(key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
                selector.unregister(key.fileobj)
                key.fileobj.close()
        for key in list(selector.get_map().values()):
            if key.data is not None:
                ends[key.data] = SILENT
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
    return ends


def _end(error: int) -> str:
    known = {0: OK, errno.ECONNREFUSED: REFUSED, errno.ETIMEDOUT: SILENT}
    return known.get(error, UNREACHABLE + os.strerror(error))
