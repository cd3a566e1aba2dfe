"""Unix sockets by path of any length: sun_path holds 108 bytes, so paths begin with /proc/self/fd/N."""

from __future__ import annotations

import os
import socket
import struct

_PEER = struct.Struct("iII")


def listen(path: str) -> socket.socket:
    """Return a listening socket at `path` with mode 0600; a stale socket there is replaced."""
    with _Parent(path) as short:
        if os.path.lexists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(short)
        os.chmod(path, 0o600)
        listener.listen(64)
        listener.setblocking(False)
        return listener


def accept(listener: socket.socket) -> socket.socket | None:
    """Return the next connection of our user or of root; None for another user's, which is closed, or without one."""
    try:
        connected, _ = listener.accept()
    except OSError:
        return None
    if peer(connected)[1] in (0, os.getuid()):
        return connected
    connected.close()
    return None


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return process and user id of the other side of a connection (unix(7)). Raises OSError."""
    pid, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid


def connect(path: str, timeout_s: float | None = None) -> socket.socket:
    """Connect to the listener at `path`. Raises OSError without one."""
    with _Parent(path) as short:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(short)
        except OSError:
            connection.close()
            raise
        return connection


class _Parent:
    """Short name of `path`, valid while its directory is open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = -1

    def __enter__(self) -> str:
        self._directory = os.open(os.path.dirname(self._path), os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._directory}/{os.path.basename(self._path)}"

    def __exit__(self, *_: object) -> None:
        os.close(self._directory)
