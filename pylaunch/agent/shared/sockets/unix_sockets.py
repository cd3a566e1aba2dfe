"""Owners of the Unix sockets of this machine, from the kernel (sock_diag(7)) and not from their processes."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator

_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_ALL_STATES = 0xFFFFFFFF
_SHOW_NAME_AND_UID = 0x41
_NAME, _UID = 0, 7
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBHIIIII")
_SOCKET = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")
_PEER = struct.Struct("iII")

ANSWER_S = 1.0


def peer(connection: socket.socket) -> tuple[int, int]:
    """Return process and user id of the other side of a connection (unix(7)). Raises OSError."""
    pid, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return pid, uid


def owners() -> dict[str, int] | None:
    """Return the user id of each named Unix socket in this network namespace; None if the kernel does not report it."""
    question = _QUESTION.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_NAME_AND_UID, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
            kernel.settimeout(ANSWER_S)
            kernel.sendto(
                _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + question, (0, 0)
            )
            found: dict[str, int] = {}
            while True:
                for kind, body in parts(kernel.recv(1 << 16)):
                    if kind == _DONE:
                        return found
                    if kind == _ERROR:
                        return None
                    known = dict(attributes(body[_SOCKET.size :]))
                    if _NAME in known and len(known.get(_UID, b"")) == 4:
                        found[os.fsdecode(known[_NAME])] = int.from_bytes(known[_UID], sys.byteorder)
    except OSError:
        return None


def parts(answer: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of each netlink message in `answer`."""
    while len(answer) >= _HEADER.size:
        length, kind, _, _, _ = _HEADER.unpack_from(answer)
        if length < _HEADER.size:
            return
        yield kind, answer[_HEADER.size : length]
        answer = answer[_aligned(length) :]


def attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each netlink attribute in `body`."""
    while len(body) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(body)
        if length < _ATTRIBUTE.size:
            return
        yield kind, body[_ATTRIBUTE.size : length]
        body = body[_aligned(length) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
