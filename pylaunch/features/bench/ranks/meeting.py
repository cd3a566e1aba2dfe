"""Meeting of all ranks at rank 0 over a plain socket, before they import a framework.

    rank r  ──►  run and rank
            ◄──  a newline: all ranks are connected, and the port is free again

A connection that sends anything else is closed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Iterable

from pylaunch.runtime.place import LaunchError, Place

RETRY_S = 0.2
SEND_S = 5.0
LONGEST = 200


class MissingRanksError(TimeoutError):
    """Ranks did not connect in time."""

    def __init__(self, missing: Iterable[int], world_size: int, waited_s: float) -> None:
        numbers = sorted(missing)
        ranks = f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(map(str, numbers))}"
        super().__init__(f"{ranks} of {world_size} did not connect within {waited_s:.0f} s: see their last output")


def meet(mine: Place, within_s: float) -> None:
    """Wait for all ranks. Raises MissingRanksError after `within_s`, and LaunchError if rank 0 cannot listen."""
    names = ("PYLAUNCH_RUN", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")  # The first differs between attempts.
    run = next(filter(None, map(os.environ.get, names)), "")
    if mine.rank == 0:
        _admit(mine, run, within_s)
    else:
        _join(mine, f"{run} {mine.rank}\n".encode(), within_s)


def _admit(mine: Place, run: str, within_s: float) -> None:
    until = time.monotonic() + within_s
    present: dict[int, socket.socket] = {}
    try:
        listener = listen(mine.port)
    except OSError as error:
        raise LaunchError(f"rank 0 cannot listen on port {mine.port}: {os.strerror(error.errno or 0)}") from error
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as selector:
        opened.enter_context(listener)
        selector.register(listener, selectors.EVENT_READ)
        while len(present) < mine.world_size - 1:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise MissingRanksError({*range(1, mine.world_size)} - {*present}, mine.world_size, within_s)
            for key, _ in selector.select(left_s):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                with contextlib.suppress(OSError):  # It has ended, or strangers have all descriptors.
                    if connection is listener:
                        accepted = opened.enter_context(listener.accept()[0])
                        accepted.settimeout(SEND_S)
                        selector.register(accepted, selectors.EVENT_READ)
                        continue
                    selector.unregister(connection)
                    name, _, rank = connection.recv(LONGEST).decode("utf-8", "replace").rstrip("\n").rpartition(" ")
                    if name == run and rank.isdecimal() and 0 < int(rank) < mine.world_size:
                        present[int(rank)] = connection
                    else:
                        connection.close()
        listener.close()  # A rank that has the answer may connect to the framework on this port at once.
        for connection in present.values():
            with contextlib.suppress(OSError):
                connection.sendall(b"\n")


def _join(mine: Place, line: bytes, within_s: float) -> None:
    until = time.monotonic() + within_s
    while True:
        left_s = max(0.1, until - time.monotonic())
        with contextlib.suppress(OSError), socket.create_connection((mine.address, mine.port), left_s) as connection:
            connection.sendall(line)
            connection.settimeout(max(0.1, until - time.monotonic()))
            if connection.recv(1):
                return
        if time.monotonic() >= until:
            raise MissingRanksError({0}, mine.world_size, within_s)
        time.sleep(RETRY_S)  # noqa: TID251 -- a poll with a limit, in a rank


def listen(port: int) -> socket.socket:
    """Listen on `port` of all addresses. SO_REUSEADDR, which this sets, permits a port held by a launcher."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
