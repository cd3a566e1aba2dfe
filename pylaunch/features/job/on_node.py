"""Programs for the first node of a replica: which ports are free, and whether the replica is ready. Sent over SSH.

Standard library only, Python 3.8 or newer.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import time

from pylaunch.agent.shared.sockets import ports

CONNECT_S = 2.0
SLACK_S = 5.0
"""A process that is this much older than the ranks was there before them."""

LEFT_TO_RENDEZVOUS = 32


def print_free_ports(count: int) -> None:
    """Print {"free": ports} with at most `count` ports that nothing listens on.

    Rendezvous take the first free one of the same list, and other jobs may choose at this moment: these are any others.
    """
    found: list[int] = []
    there = ports.candidates()
    there = there[LEFT_TO_RENDEZVOUS:] or there
    random.shuffle(there)
    for port in there:
        with contextlib.suppress(OSError), ports.hold(port):
            found.append(port)
        if len(found) == count:
            break
    print(json.dumps({"free": found}))


def print_readiness(port: int, path: str, address: str, run: str, age_s: float) -> None:
    """Print {"ready": bool, "why": what was seen} for a part whose endpoint is `port` at `address` of this host.

    With `path`, a request there must be answered. `run` is the run of the part, whose ranks started `age_s` seconds
    ago.
    """
    there, why = _answer(address, port, path)
    stranger = _stranger(port, run, age_s) if there else ""
    if stranger:
        there, why = False, f"{stranger} listens on port {port}, and is no process of the run"
    print(json.dumps({"ready": there, "why": why[:300]}))


def _stranger(port: int, run: str, age_s: float) -> str:
    """Return the process on `port` that belongs to another run or is older than this one; "" if that is not known.

    A process without a mark may be a container's that a rank has started.
    """
    found = ports.listener(port)
    if found is None or found.pid is None:
        return ""
    if found.run is not None:
        return "" if found.run.partition(".")[0] == run.partition(".")[0] else f"{found} of run {found.run}"
    is_older = found.since is not None and time.time() - found.since > age_s + SLACK_S
    return str(found) if is_older else ""


def _answer(address: str, port: int, path: str) -> tuple[bool, str]:
    """Return whether `address` accepts a connection and, with a path, answers HTTP with a good status."""
    where = f"{address}:{port}"
    try:
        if not path:
            with socket.create_connection((address, port), CONNECT_S):
                return True, f"{where} accepts connections"
        connection = http.client.HTTPConnection(address, port, timeout=CONNECT_S)
        with contextlib.closing(connection):
            connection.request("GET", path)
            status = connection.getresponse().status
            return 200 <= status < 400, f"{where}{path}: status {status}"
    except socket.timeout:
        return False, f"{where}: no answer within {CONNECT_S:g} s"
    except OSError as error:
        return False, f"{where}: {(error.strerror or str(error)).lower()}"
    except http.client.HTTPException as error:
        return False, f"{where}: no HTTP answer ({type(error).__name__})"
