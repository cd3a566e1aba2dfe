"""Fit a line with all ranks: each has its own points, and rank 0 sums the gradients of all over TCP.

Needs the standard library alone. `--break-rank N` makes rank N fail in the middle.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import time

STEPS = 8
STEP_S = 0.2
"""So that a person can follow."""

CONNECT_S = 20.0
SUMS = struct.Struct("3d")

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
broken = int(sys.argv[2]) if sys.argv[1:2] == ["--break-rank"] else None


def connections() -> list[socket.socket]:
    """Return the connections of rank 0 to all others, or that of another rank to rank 0."""
    if rank == 0:
        server = socket.create_server(master, backlog=ranks)
        return [server.accept()[0] for _ in range(ranks - 1)]
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            return [socket.create_connection(master, CONNECT_S)]
        except ConnectionRefusedError:  # Rank 0 does not listen yet.
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def received(connection: socket.socket) -> tuple[float, ...]:
    data = b""
    while len(data) < SUMS.size:
        part = connection.recv(SUMS.size - len(data))
        if not part:
            raise ConnectionResetError("Connection reset by peer")
        data += part
    return SUMS.unpack(data)


def all_reduce(values: tuple[float, ...], peers: list[socket.socket]) -> tuple[float, ...]:
    """Return the sums of `values` over all ranks."""
    if rank == 0:
        for peer in peers:
            values = tuple(mine + theirs for mine, theirs in zip(values, received(peer), strict=True))
        for peer in peers:
            peer.sendall(SUMS.pack(*values))
        return values
    peers[0].sendall(SUMS.pack(*values))
    return received(peers[0])


def main() -> None:
    peers = connections()
    points = [(x, 3 * x + 2) for x in (random.Random(rank).uniform(-1, 1) for _ in range(100))]
    slope = offset = 0.0
    for step in range(1, STEPS + 1):
        time.sleep(STEP_S)
        if rank == broken and step == STEPS // 2:
            raise RuntimeError(f"loss is NaN at step {step}")
        errors = [(slope * x + offset - y, x) for x, y in points]
        sums = (sum(e * x for e, x in errors), sum(e for e, _ in errors), sum(e * e for e, _ in errors))
        by_slope, by_offset, loss = (each / (ranks * len(points)) for each in all_reduce(sums, peers))
        slope, offset = slope - by_slope, offset - by_offset
        if rank == 0:
            print(f"step {step}/{STEPS} loss={loss:.4f}", flush=True)
    print(f"y = {slope:.2f} x + {offset:.2f}", flush=True)


main()
