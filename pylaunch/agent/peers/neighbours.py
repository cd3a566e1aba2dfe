"""Neighbours of a node: which other agents it watches, their addresses, and test connections to them."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from typing import Callable, Tuple

from pylaunch.agent.shared.sockets import ports

Target = Tuple[socket.AddressFamily, str, int]

WATCHED = 3
"""Number of neighbours on each side. Six agents watch each node, and the cost per node is independent of the size of
the cluster."""

LOOK_UP_S = 2.0
"""Seconds for looking up all names together."""

TRY_S = 2.0
"""Timeout of a test connection. Linux repeats a lost SYN after 1 s, so one lost packet does not fail the test."""

OK, SILENT, REFUSED, NAMELESS, UNREACHABLE = "ok", "silent", "refused", "nameless", "unreachable: "
"""Results of a test connection; the last one is followed by the error of the system."""


def neighbours(me: str, names: list[str]) -> list[str]:
    """Return the nodes that `me` watches: the nearest in the ring of `names`, all nodes in rank order."""
    if me not in names:
        return []
    place, count = names.index(me), len(names)
    around = [names[(place + step) % count] for step in range(-WATCHED, WATCHED + 1)]
    return [name for name in dict.fromkeys(around) if name != me]


def look_up(addresses: dict[str, str]) -> dict[str, tuple[socket.AddressFamily, str]]:
    """Return the numeric address of each node, without nodes whose names cannot be resolved in time."""
    found: dict[str, tuple[socket.AddressFamily, str]] = {}
    until = time.monotonic() + LOOK_UP_S
    for name, address in addresses.items():
        flags = 0 if time.monotonic() < until else socket.AI_NUMERICHOST
        try:
            family, _, _, _, place = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM, flags=flags)[0]
        except (OSError, UnicodeError):  # UnicodeError: the name is no domain name.
            continue
        found[name] = (family, str(place[0]))
    return found


def listen() -> socket.socket | None:
    """Listen on a free port. None where none is free: peer messaging is disabled, and `Ready` reports port 0."""
    try:
        return ports.listen(0)
    except OSError:
        return None


def try_connections(
    targets: dict[str, Target],
    on_incoming: Callable[[], None] = lambda: None,
    listener: socket.socket | None = None,
) -> dict[str, str]:
    """Connect to all `targets` at once, for TRY_S at most, and return the result of each. Nothing is sent.

    Calls `on_incoming` for connections that reach `listener` meanwhile.
    """
    ends: dict[str, str] = {}
    with selectors.DefaultSelector() as selector:
        if listener is not None:
            selector.register(listener, selectors.EVENT_READ)
        for name, (family, address, port) in targets.items():
            try:
                connecting = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:  # No descriptor is left, or the family is disabled here.
                ends[name] = UNREACHABLE + os.strerror(error.errno or 0)
                continue
            connecting.setblocking(False)
            connecting.connect_ex((address, port))  # The socket becomes writable when the connection succeeds or fails.
            selector.register(connecting, selectors.EVENT_WRITE, name)
        until = time.monotonic() + TRY_S
        left = TRY_S
        while len(ends) < len(targets) and left > 0:
            left = until - time.monotonic()  # At the end, look once more: this process may have been held up.
            for key, _ in selector.select(max(0.0, left)):
                if key.data is None:
                    on_incoming()
                    continue
                assert isinstance(key.fileobj, socket.socket)
                ends[key.data] = _result(key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
                selector.unregister(key.fileobj)
                key.fileobj.close()
        for key in list(selector.get_map().values()):
            if key.data is not None:
                ends[key.data] = SILENT
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.close()
    return ends


def _result(error: int) -> str:
    known = {0: OK, errno.ECONNREFUSED: REFUSED, errno.ETIMEDOUT: SILENT}
    return known.get(error, UNREACHABLE + os.strerror(error))
