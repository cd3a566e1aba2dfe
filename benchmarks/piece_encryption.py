"""Measure the processor time of pieces between hosts: with TLS, as they are sent, beside plain TCP.

python benchmarks/piece_encryption.py [--pieces 100]

One process sends pieces of 4 MiB to itself over loopback, one connection for each.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import struct
import tempfile
import time
from pathlib import Path

from pylaunch.agent.piped.piece_source import PIECE
from pylaunch.agent.piped.piece_store import PieceStore
from pylaunch.agent.piped.pieces import PieceNode, tls_context
from pylaunch.broadcast.identity import new_identity
from pylaunch.broadcast.payload import read_payload


def main() -> None:
    """Print MB per second of processor time, of both sides together."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=100)
    count = parser.parse_args().pieces
    identity = new_identity()
    client = tls_context(identity, ssl.PROTOCOL_TLS_CLIENT)
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "source")
        source.write_bytes(bytes(PIECE))
        Path(directory, "node").mkdir()
        Path(directory, "node/source").write_bytes(bytes(PIECE))
        order = {**read_payload([source], f"{directory}/node/").order, "identity": identity, "rate": 0}
        store = PieceStore(order)
        store.open()
        encrypted = PieceNode(order, store)
        plain = PieceNode(order, store)
        plain._as_server.wrap_socket = lambda connection, server_side: connection  # type: ignore[assignment,method-assign]
        for name, node in (("TLS 1.3", encrypted), ("plain TCP", plain)):
            port, begun = node.listen(), time.process_time()
            for _ in range(count):
                connection = socket.create_connection(("127.0.0.1", port))
                with client.wrap_socket(connection) if node is encrypted else connection as peer:
                    peer.sendall(struct.pack("!I", 0))
                    left = PIECE
                    while left:
                        left -= len(peer.recv(1 << 18))
            print(f"{name:<10} {count * PIECE / 1e6 / (time.process_time() - begun):8.0f} MB/s of processor time")


if __name__ == "__main__":
    main()
