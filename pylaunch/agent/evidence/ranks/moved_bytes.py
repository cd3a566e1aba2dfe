"""Bytes that the processes of each rank read and write, on files and on TCP connections. A rank notices nothing.

/proc/PID/io counts `read` and `write`, and page faults, but not `recv` and `send`: the kernel counts these for each
connection (sock_diag(7)). Connections that a rank accepted are left out, because the store of torch answers the
heartbeats of all ranks on them while nothing advances; so is the thread that answers the agent.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Mapping

from pylaunch.agent.evidence.ranks.rank_states import family
from pylaunch.agent.in_rank.questions import THREAD
from pylaunch.agent.shared.sockets import unix_sockets
from pylaunch.agent.shared.text import link_of, names_in, text_of, text_or_none

READ_S = 0.2
"""Time for all ranks, in which the agent does nothing else. Ranks beyond it are left out."""

MOST_NAMES = 4000
"""Threads and descriptors of one process that are read."""

COUNTERS = ("rchar", "wchar", "read_bytes", "write_bytes")

_REQUEST = struct.Struct("=IHHII BBBxI 48x")
_DIAG, _DUMP, _INFO, _LISTENS = 20, 0x301, 2, 10
"""SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, INET_DIAG_INFO, TCP_LISTEN (linux/inet_diag.h)."""

_ATTRIBUTES = 72
"""Size of struct inet_diag_msg, after which its attributes begin."""

_BYTES_AT = 120
"""Offset of tcpi_bytes_acked and tcpi_bytes_received in struct tcp_info."""


def of_ranks(pids: Mapping[int, int]) -> dict[int, int]:
    """Return the bytes of each rank in `pids` (rank → process id) since it started, of the processes that are alive."""
    until = time.monotonic() + READ_S
    connections = tcp_bytes()
    found = {}
    for rank, pid in pids.items():
        moved = sum(_of_process(each, connections) for each in family(pid))
        if time.monotonic() >= until:
            break
        found[rank] = moved
    return found


def _of_process(pid: int, connections: Mapping[str, int]) -> int:
    threads = [each for each in names_in(f"/proc/{pid}/task", MOST_NAMES) if _answers(pid, each)]
    own = sum(_io(f"/proc/{pid}/task/{thread}") for thread in threads)
    links = map(link_of, (f"/proc/{pid}/fd/{name}" for name in names_in(f"/proc/{pid}/fd", MOST_NAMES) if connections))
    return _io(f"/proc/{pid}") - own + sum(connections.get(link, 0) for link in set(links))


def _answers(pid: int, thread: str) -> bool:
    return text_or_none(f"/proc/{pid}/task/{thread}/comm") == THREAD


def _io(directory: str) -> int:
    try:
        fields = dict(line.split(": ", 1) for line in text_of(f"{directory}/io").splitlines())
        return sum(int(fields[name]) for name in COUNTERS)
    except (OSError, ValueError, KeyError):
        return 0


def tcp_bytes() -> dict[str, int]:
    """Return the bytes sent and received on each TCP connection of this host that its process opened, by the target
    of its descriptor, "socket:[7001]"; {} if the kernel does not report them."""
    rows: list[tuple[int, int, int, int]] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as kernel:
            kernel.settimeout(READ_S)
            for number in (socket.AF_INET, socket.AF_INET6):
                kernel.send(
                    _REQUEST.pack(72, _DIAG, _DUMP, 0, 0, number, socket.IPPROTO_TCP, 1 << _INFO - 1, 0xFFFFFFFF)
                )
                rows += _rows(kernel)
    except OSError:
        return {}
    listening = {port for state, port, _, _ in rows if state == _LISTENS}
    return {f"socket:[{inode}]": moved for _, port, inode, moved in rows if port not in listening}


def _rows(kernel: socket.socket) -> Iterator[tuple[int, int, int, int]]:
    """Yield state, local port, inode and bytes of each connection of one answer."""
    while True:
        for kind, message in unix_sockets.parts(kernel.recv(1 << 17)):
            if kind != _DIAG:
                return
            (port,), (inode,) = struct.unpack_from("!H", message, 4), struct.unpack_from("=I", message, 68)
            counted = dict(unix_sockets.attributes(message[_ATTRIBUTES:])).get(_INFO, b"")[_BYTES_AT : _BYTES_AT + 16]
            yield message[1], port, inode, sum(struct.unpack("=QQ", counted)) if len(counted) == 16 else 0
