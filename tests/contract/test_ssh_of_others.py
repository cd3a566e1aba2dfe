"""Verbs that examine the SSH of hosts name a server that is none, and a name that no host can have."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylaunch.cli.main import run
from pylaunch.errors import ExitCode

REASON = b"\xff\xfe"
"""Text that is no UTF-8, where the protocol has UTF-8."""


def disconnect() -> bytes:
    """A packet of SSH that says why the server ends the connection."""
    payload = b"\1" + struct.pack(">II", 2, len(REASON)) + REASON
    padding = 16 - (len(payload) + 5) % 8
    return struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)


@pytest.fixture
def port() -> Iterator[int]:
    """A port where something greets as an SSH server does, and ends with bytes that are no text."""

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"SSH-2.0-x\r\n" + disconnect())
                    connection.settimeout(10)
                    while connection.recv(4096):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("verb", ["trust", "check"])
def test_a_server_that_sends_bytes_that_are_no_text_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], port: int, verb: str
) -> None:
    inventory = tmp_path / "cluster.ini"
    inventory.write_text(f"[cluster]\nn1 ansible_host=127.0.0.1 ansible_port={port}\n")
    assert run([verb, "-i", str(inventory)]) == ExitCode.CLUSTER_NOT_READY
    printed = capfd.readouterr()
    assert "n1" in printed.out + printed.err
    assert "this is a bug" not in printed.err
