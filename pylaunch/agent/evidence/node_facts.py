"""Facts of this node that explain a failure or a hang: kernel messages, connections without an answer, clock steps.

The kernel counts, for each connection, retransmissions that timed out in a row: nobody acknowledges, so the path or the
host of the peer is at fault.
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

RETRANSMITS = "01"
"""Number of the timer of a connection whose packets have no answer (proc_net_tcp.txt of Linux)."""

OPENED_BY_PEER = "03"
"""State SYN_RECV: the connection has no process yet."""

MOST_ROWS = 20_000
MOST_DESCRIPTORS = 4096
"""Descriptors of one process that are read."""

KEPT = 48


@dataclass(frozen=True)
class TcpConnection:
    """A connection in /proc/net/tcp or tcp6."""

    ends: Ends
    state: str
    send_queue: int
    retransmits: int
    """Retransmissions that timed out in a row."""

    inode: str
    """"0" without a process."""

    @property
    def is_unanswered(self) -> bool:
        """True if another host does not acknowledge."""
        (own, _), (other, _) = self.ends
        return self.retransmits > 0 and own != other


def parse(table: Iterable[str]) -> Iterator[TcpConnection]:
    """Yield the connections in the lines of /proc/net/tcp or tcp6, without broken lines."""
    for line in itertools.islice(table, MOST_ROWS):
        words = line.split()
        try:
            retransmits = int(words[6], 16) if words[5].startswith(RETRANSMITS) else 0
            ends = _place(words[1]), _place(words[2])
            yield TcpConnection(ends, words[3], int(words[4].partition(":")[0], 16), retransmits, words[9])
        except (IndexError, ValueError):
            continue


def _place(text: str) -> tuple[str, int]:
    """Return the address and the port in "0100007F:1F90": 32-bit words in the byte order of the host."""
    address, _, port = text.partition(":")
    raw = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
    if raw[:12] == bytes(10) + b"\xff\xff":
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw), int(port, 16)


def unanswered(
    rows: Iterable[TcpConnection], owners: Mapping[str, int | None], earlier: AbstractSet[Ends]
) -> list[protocol.StuckConnection]:
    """Return the connections of the run whose peer does not acknowledge; `owners`: inode → rank, None for a launcher.

    The kernel keeps the connection of a process that has ended for minutes: it is included without a rank, unless it is
    in `earlier`, those before the ranks.
    """
    found = []
    for row in rows:
        is_left = row.inode == "0" and row.state != OPENED_BY_PEER and row.ends not in earlier
        if row.is_unanswered and (is_left or row.inode in owners):
            (_, own_port), peer = row.ends
            rank = owners.get(row.inode)
            found.append(protocol.StuckConnection(rank, *peer, row.send_queue, row.retransmits, own_port))
    return sorted(found, key=lambda each: each.retransmits, reverse=True)


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
        self._earlier = frozenset(row.ends for row in _rows({}, time.monotonic() + SOCKETS_S)[0])
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
        now, until = time.time(), time.monotonic() + SOCKETS_S
        rows, missing = _rows(pids, until)
        owners, is_whole = _owners(pids, until)
        if not is_whole:
            missing = missing or "not all descriptors of the ranks could be read"
        stuck = tuple(unanswered(rows, owners, self._earlier)[:KEPT])
        addresses = [each for each, name in _addresses().items() if name != interfaces.LOOPBACK]
        step_s = _clock() - self._clock
        found = protocol.HostEvidence(
            "", now, 0.0, stuck=stuck, addresses=tuple(addresses[:MOST_ADDRESSES]),
            clock_step_s=round(step_s, 3) if abs(step_s) >= LEAST_STEP_S else 0.0,
            missing=(missing,) if missing else (), serial=serial,
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
