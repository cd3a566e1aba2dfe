"""TCP ports that no other test takes."""

import itertools
import os
import socket
from collections.abc import Iterator

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 9
_OFFSETS: Iterator[int] = itertools.cycle((*range(os.getpid() % 1000, 1000), *range(os.getpid() % 1000)))


def free_port() -> int:
    """Return a port that is free on every address, below the ephemeral range and the ports for a rendezvous.

    Each process of the test-suite has a thousand of its own, so nothing takes the port before the test does.
    """
    for offset in _OFFSETS:
        port = 20_000 + 1000 * _WORKER + offset
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
        return port
    raise AssertionError("unreachable")
