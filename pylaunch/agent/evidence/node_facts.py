"""Facts of this node that explain a failure or a hang: kernel messages, connections without progress, clock steps.

The kernel counts, for each connection, retransmissions that timed out in a row (nobody acknowledges: the path or the
host of the peer is at fault) and probes of a peer that acknowledges and does not read (its process is at fault).
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from typing import AbstractSet, Iterable, Iterator, Mapping, Tuple

from pylaunch import protocol
from pylaunch.agent.evidence.kernel_messages import KernelLog
from pylaunch.agent.evidence.rank_states import family
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import link_of
from pylaunch.base.dataclass import dataclass, replace

Ends = Tuple[Tuple[str, int], Tuple[str, int]]
"""Local and remote address and port, which identify a connection while it exists."""

STATES = {
    "01": "ESTABLISHED", "02": "SYN_SENT", "03": "SYN_RECV", "04": "FIN_WAIT1", "05": "FIN_WAIT2", "06": "TIME_WAIT",
    "07": "CLOSE", "08": "CLOSE_WAIT", "09": "LAST_ACK", "0A": "LISTEN", "0B": "CLOSING",
}  # fmt: skip
"""States of TCP by their number in /proc/net/tcp (include/net/tcp_states.h of Linux)."""

LEFT_BY_A_PROCESS = ("FIN_WAIT1", "LAST_ACK", "CLOSING")
"""States of a connection whose process has ended while the peer has not acknowledged everything."""

MOST_ROWS = 20_000
MOST_DESCRIPTORS = 4096
"""Descriptors of one process that are read."""

KEPT = 48


@dataclass(frozen=True)
class TcpConnection:
    """A connection in /proc/net/tcp or tcp6."""

    local: tuple[str, int]
    peer: tuple[str, int]
    state: str
    send_queue: int
    retransmits: int
    probes: int
    inode: str

    @property
    def has_trouble(self) -> bool:
        """True if the peer, or the path to it, holds up this connection."""
        return self.retransmits > 0 or self.probes > 0 or self.state == "SYN_SENT" or self.send_queue > 0

    @property
    def is_remote(self) -> bool:
        return self.local[0] != self.peer[0]

    @property
    def ends(self) -> Ends:
        return self.local, self.peer


def parse(table: Iterable[str]) -> Iterator[TcpConnection]:
    """Yield the connections in the lines of /proc/net/tcp or tcp6, without listening sockets and broken lines."""
    for line in itertools.islice(table, MOST_ROWS):
        words = line.split()
        try:
            sending = words[4].partition(":")[0]
            timer = words[5].partition(":")[0]
            row = TcpConnection(
                _place(words[1]), _place(words[2]), STATES[words[3]], int(sending, 16),
                int(words[6], 16) if timer == "01" else 0, int(words[8]) if timer == "04" else 0, words[9],
            )  # fmt: skip
        except (IndexError, KeyError, ValueError):
            continue
        if row.state != "LISTEN":
            yield row


def _place(text: str) -> tuple[str, int]:
    """Return the address and the port in "0100007F:1F90": 32-bit words in the byte order of the host."""
    address, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
    if raw[:12] == bytes(10) + b"\xff\xff":
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


def existing(until: float) -> frozenset[Ends]:
    """Return the connections of this host, which are not those of ranks that start later. `until` is monotonic."""
    return frozenset(row.ends for row in _rows({}, until)[0])


def of_run(
    rows: Iterable[TcpConnection], owners: Mapping[str, int | None], earlier: AbstractSet[Ends]
) -> Iterator[TcpConnection]:
    """Yield the connections of the run that do not make progress: of its processes, and of those that have ended.

    The kernel keeps the connection of an ended process, without an owner, for minutes. One that is in `earlier` belongs
    to another run.
    """
    for row in rows:
        is_left = row.inode == "0" and row.state in LEFT_BY_A_PROCESS and row.retransmits > 0
        if row.has_trouble and row.is_remote and (row.inode in owners or (is_left and row.ends not in earlier)):
            yield row


def troubled(
    pids: Mapping[int, int | None], until: float, earlier: AbstractSet[Ends] = frozenset()
) -> tuple[tuple[protocol.StuckConnection, ...], int, str]:
    """Return the connections of the ranks in `pids` that do not make progress, the number of all of their connections,
    and a reason why some could not be read.

    `pids`: process id → rank, None for a launcher. `until` is monotonic. Connections that an ended process of the run
    left behind are included without a rank; `earlier` are those that existed before the ranks.
    """
    rows, missing = _rows(pids, until)
    owners, is_whole = _owners(pids, until)
    if not is_whole:
        missing = missing or "not all descriptors of the ranks could be read"
    count = sum(row.inode in owners for row in rows)
    found = [_socket(row, owners.get(row.inode)) for row in of_run(rows, owners, earlier)]
    found.sort(key=lambda each: (each.retransmits, each.probes, each.send_queue), reverse=True)
    return tuple(found[:KEPT]), count, missing


def _rows(pids: Mapping[int, int | None], until: float) -> tuple[list[TcpConnection], str]:
    """Return the connections in the network namespace of the first process that is alive."""
    for pid in (*pids, os.getpid()):
        rows: list[TcpConnection] = []
        try:
            for name in ("tcp", "tcp6"):
                with open(f"/proc/{pid}/net/{name}", encoding="ascii", errors="replace") as table:
                    rows += parse(itertools.takewhile(lambda _: time.monotonic() < until, table))
        except OSError:
            continue
        return rows, "" if time.monotonic() < until else "not all connections could be read in time"
    return [], "/proc/net/tcp cannot be read"


def _owners(pids: Mapping[int, int | None], until: float) -> tuple[dict[str, int | None], bool]:
    """Return inode → rank of the sockets of each rank and its children, and whether all were read."""
    owners: dict[str, int | None] = {}
    is_whole = True
    for pid, rank in pids.items():
        for each in family(pid) if rank is not None else (pid,):
            try:
                names = os.listdir(f"/proc/{each}/fd")
            except OSError:
                continue
            is_whole = is_whole and len(names) <= MOST_DESCRIPTORS
            for name in names[:MOST_DESCRIPTORS]:
                if time.monotonic() >= until:
                    return owners, False
                link = link_of(f"/proc/{each}/fd/{name}")
                if link.startswith("socket:["):
                    owners[link[8:-1]] = rank
    return owners, is_whole


def _socket(row: TcpConnection, rank: int | None) -> protocol.StuckConnection:
    return protocol.StuckConnection(
        rank, row.state, *row.peer, row.send_queue, row.retransmits, row.probes, row.local[1]
    )


SOCKETS_S = 0.15
"""Time for the connections of the ranks, in which the agent does nothing else."""

LEAST_STEP_S = 0.2
"""A smaller difference between the node's clock and its steady clock is what NTP corrects all the time."""

MOST_ADDRESSES = 32


class NodeFacts:
    """Reader of the facts for one run on this node."""

    def __init__(self, kernel: KernelLog) -> None:
        self._kernel = kernel
        self._clock = _clock()
        self._earlier = existing(time.monotonic() + SOCKETS_S)
        """Connections that existed before the ranks of this run."""

        self._at_stop: protocol.HostEvidence | None = None
        self._is_reported = False
        self._ranks: dict[int, int] = {}

    def know(self, rank: int, pid: int) -> None:
        """Remember the process of `rank`, by which kernel messages are assigned to it."""
        self._ranks[pid] = rank

    def collect(self, pids: Mapping[int, int | None]) -> None:
        """Read the facts of the stop, once, before the ranks are ended. `pids`: process id → rank."""
        if self._at_stop is None:
            self._at_stop = self.read(pids)

    def at_stop(self) -> protocol.HostEvidence | None:
        """Return the facts of the stop with the kernel messages until now, once; None if nothing was collected."""
        if self._at_stop is None or self._is_reported:
            return None
        self._is_reported = True
        return self._with_kernel(self._at_stop)

    def read(self, pids: Mapping[int, int | None], serial: int = protocol.UNASKED) -> protocol.HostEvidence:
        """Return the facts now, for the request `serial`."""
        began, now = time.monotonic(), time.time()
        stuck, count, missing = troubled(pids, began + SOCKETS_S, self._earlier)
        addresses = [each for each, name in _addresses().items() if name != interfaces.LOOPBACK]
        step_s = _clock() - self._clock
        found = protocol.HostEvidence(
            "", now, 0.0, stuck=stuck, connections=count, addresses=tuple(addresses[:MOST_ADDRESSES]),
            clock_step_s=round(step_s, 3) if abs(step_s) >= LEAST_STEP_S else 0.0,
            missing=(missing,) if missing else (), seconds=time.monotonic() - began, serial=serial,
        )  # fmt: skip
        return self._with_kernel(found)

    def _with_kernel(self, found: protocol.HostEvidence) -> protocol.HostEvidence:
        self._kernel.read()
        messages = [
            replace(each, rank=None if each.pid is None else self._ranks.get(each.pid))
            for each in self._kernel.messages
        ]
        missing = [each for each in (*found.missing, self._kernel.missing) if each]
        return replace(found, kernel=tuple(messages), missing=tuple(dict.fromkeys(missing)))


def _addresses() -> Mapping[str, str]:
    try:
        return interfaces.address_owners()
    except OSError:
        return {}


def _clock() -> float:
    """Return the node's clock minus its steady clock, which nobody can set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
