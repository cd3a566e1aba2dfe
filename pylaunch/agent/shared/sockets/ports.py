"""Hold a TCP port for the run's rendezvous, and find the process that listens on a port already in use.

The port is bound without listening. On Linux a socket with SO_REUSEADDR may listen on a port that another socket with
SO_REUSEADDR only bound: the store of the ranks can use the held port, a program without the option cannot.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator

from pylaunch.agent.shared import leases, processes
from pylaunch.agent.shared.text import text_or_none
from pylaunch.base.dataclass import dataclass
from pylaunch.base.layout import RUN_ID

LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """Process that listens on a port."""

    pid: int | None
    """None for a process of another user, whose descriptors cannot be read."""

    user: str
    command: str
    since: float | None
    run: str | None
    """Run whose mark it carries; None without one."""

    def __str__(self) -> str:
        if self.pid is None:
            return f"a process of {self.user}"
        began = "" if self.since is None else f", started {time.strftime('%F %H:%M', time.localtime(self.since))}"
        return f"pid {self.pid} ({self.command[:200]}) of {self.user}{began}"


def hold(port: int) -> socket.socket:
    """Bind `port` on every address. Raises OSError (EADDRINUSE) if a process listens on it."""
    try:
        return _bind(socket.AF_INET6, ("::", port))
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            raise
    return _bind(socket.AF_INET, ("0.0.0.0", port))


def listen(port: int) -> socket.socket:
    """Listen on `port` (0: one that the kernel chooses) of every address of both families. Raises OSError."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=256, dualstack_ipv6=True)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # IPv6 is compiled in, and disabled on this node.
                raise
    return socket.create_server(("", port), backlog=256)


CANDIDATES = (range(29500, 29600), range(29400, 29500))
"""Ranges of rendezvous ports, in order of preference. The role firewall opens them to the members by default."""

FIREWALL = "/etc/pylaunch/firewall/wanted.json"
"""Ports that the role firewall has opened on this host."""

_KERNEL = "/proc/sys/net/ipv4/"


def candidates(firewall: str = FIREWALL, kernel: str = _KERNEL) -> list[int]:
    """Return the ports for a rendezvous, best first: open in the firewall, and not reserved.

    Ports in the node's ephemeral range are last, because any connection may use them.
    """
    first = [port for ports in CANDIDATES for port in ports]
    opened_here = opened(firewall)
    if opened_here is not None:
        first = [port for port in first if port in opened_here] or sorted(opened_here)
    reserved = numbers((text_or_none(kernel + "ip_local_reserved_ports") or "").split(","))
    free = [port for port in first if port not in reserved]
    low, high = ((text_or_none(kernel + "ip_local_port_range") or "").split() or ["32768", "60999"])[:2]
    ephemeral = range(int(low), int(high) + 1)
    return sorted(free, key=lambda port: port in ephemeral)


def numbers(ranges: Iterable[str]) -> set[int]:
    """Return the ports in ranges such as "29400-29599" and "22"; anything else ("ephemeral") is ignored."""
    found: set[int] = set()
    for each in ranges:
        low, _, high = each.strip().partition("-")
        if low.isdigit() and (high or low).isdigit():
            found.update(range(int(low), int(high or low) + 1))
    return found


def spans(found: Iterable[int]) -> str:
    """Return ports as ranges: "22, 29400-29599"."""
    runs: list[tuple[int, int]] = []
    for port in sorted(found):
        low = runs.pop()[0] if runs and runs[-1][1] == port - 1 else port
        runs.append((low, port))
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def opened(path: str = FIREWALL) -> set[int] | None:
    """Return the port numbers that the role firewall has opened to the members; None without the role."""
    try:
        with open(path, encoding="utf-8") as file:
            return numbers(str(each) for each in json.load(file)["member_ports"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _bind(family: int, address: tuple[str, int]) -> socket.socket:
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        held.bind(address)
    except OSError:
        held.close()
        raise
    return held


def listening() -> Iterator[tuple[int, int, str]]:
    """Yield port, user id and descriptor link of every listening TCP socket of this host."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as source:
                rows = [line.split() for line in source.readlines()[1:]]
        except FileNotFoundError:
            continue
        for row in rows:
            if row[3] == LISTEN:
                yield int(row[1].rpartition(":")[2], 16), int(row[7]), f"socket:[{row[9]}]"


def listener(port: int) -> Listener | None:
    """Return the process that listens on `port`; None if none is visible."""
    for at, uid, link in listening():
        if at == port:
            return _describe(uid, link)
    return None


def _describe(uid: int, link: str) -> Listener:
    user = leases.user_name(uid)
    pid = _owner(link)
    if pid is None:
        return Listener(None, user, "", None, None)
    try:
        process = processes.read(pid)
    except (FileNotFoundError, ProcessLookupError):
        return Listener(None, user, "", None, None)
    run = processes.environment(pid).get(processes.RUN_MARK, "") if uid == os.getuid() else ""
    return Listener(pid, user, process.command, processes.start_time(process), run if RUN_ID.match(run) else None)


def _owner(link: str) -> int | None:
    for name in filter(str.isdigit, os.listdir("/proc")):
        if link in (processes.open_files(int(name)) or ()):
            return int(name)
    return None
