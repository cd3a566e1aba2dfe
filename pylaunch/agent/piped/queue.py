"""Place of a start in the queue for devices and a port of this node. The kernel holds it while this process lives.

A place is a socket with an abstract name that contains the time, the run, the devices and the port. All users of the
machine can read the names in /proc/net/unix, and none outlives its holder. Waiting takes no lease.

    controller                                this process (one per node and waiting start)
    order, one JSON line       ──►
                               ◄──            {"blocked": [what blocks the start]} after each change; [] is our turn
    end of input               ──►            the place is released
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
from dataclasses import dataclass, field, replace
from typing import Any, Mapping

from pylaunch.agent.shared import leases
from pylaunch.agent.shared.sockets import unix_sockets
from pylaunch.base.layout import RUN_ID, default_root, open_root

POLL_S = 0.5
"""Time between two reads of /proc/net/unix. Only new holders are queried."""

LISTENS = "00010000"
PLACE = re.compile(
    r"@pylaunch/queue/(?P<since>[0-9a-f]{14})/(?P<run>[^/ ]+)/(?P<scope>[^/ ]*)/(?P<devices>[0-9a-f]+)/(?P<port>\d+)$"
)


@dataclass(frozen=True)
class QueuePlace:
    """Place in the queue. Places are ordered by `since`, then `run`."""

    since: int
    """Microseconds since the epoch on the controller's clock: equal on all nodes, which prevents deadlocks."""

    run: str
    scope: str
    """Digest of the root that the devices belong to; "" for the default (see `leases.device_name`)."""

    devices: int
    """Bit mask."""

    port: int
    """0 for none."""

    user: str = field(default="", compare=False)
    """User of the process that holds the place; "" before the lookup."""

    @property
    def name(self) -> str:
        """Abstract socket name: at most 107 bytes after the first."""
        return f"\0pylaunch/queue/{self.since:014x}/{self.run}/{self.scope}/{self.devices:x}/{self.port}"

    def is_before(self, other: QueuePlace) -> bool:
        """Return True if this place is earlier than `other` and shares a device or the port with it."""
        shares = self.scope == other.scope and self.devices & other.devices
        return (self.since, self.run) < (other.since, other.run) and bool(
            shares or (self.port and self.port == other.port)
        )


def places(table: str) -> list[QueuePlace]:
    """Return the places in `table`, the content of /proc/net/unix."""
    found = []
    for line in table.splitlines():
        match = PLACE.search(line)
        if match and RUN_ID.match(match["run"]):
            devices, port = int(match["devices"], 16), int(match["port"])
            found.append(QueuePlace(int(match["since"], 16), match["run"], match["scope"], devices, port))
    return found


def listeners(table: str) -> dict[str, str]:
    """Return name → inode of the listening sockets in `table`, the content of /proc/net/unix."""
    rows = (line.split(None, 7) for line in table.splitlines()[1:])
    return {row[7].replace("@", "\0", 1): row[6] for row in rows if len(row) == 8 and row[3] == LISTENS}


def blocked(mine: QueuePlace, others: list[QueuePlace], holders: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what blocks `mine`: held devices and ports with their `holders`, else the first place ahead of it."""
    if holders:
        return sorted(holders.items(), key=lambda item: (item[0].split()[0], int(item[0].split()[1])))
    before = [other for other in others if other.is_before(mine)]
    if not before:
        return []
    first = min(before, key=lambda other: (other.since, other.run))
    return [("", f"run {first.run}{first.user and ' of ' + first.user}, which came first and waits too")]


class Owners:
    """Users of places, from the kernel. A line that looks like a place but has no socket is ignored."""

    def __init__(self) -> None:
        self._uids: dict[str, int] | None = {}

    def of(self, others: list[QueuePlace]) -> list[QueuePlace]:
        """Return `others` with their users; without those that have no socket."""
        if self._uids is not None and any(other.name not in self._uids for other in others):
            self._uids = unix_sockets.owners()
        uids = self._uids
        if uids is None:
            return others
        return [replace(other, user=leases.user_name(uids[other.name])) for other in others if other.name in uids]


def main() -> None:
    """Hold the place that stdin describes until stdin closes, and print what blocks it."""
    order = json.loads(sys.stdin.readline())
    root = open_root(order["root"], make=False).path
    names = {f"device {each}": leases.device_name(each, root, default_root()) for each in order["devices"]}
    names.update({f"port {port}": leases.port_name(port) for port in order["ports"]})
    bits = sum(1 << index for index in order["devices"])
    scope = leases.device_name(0, root, default_root()).split("/", 2)[2][:-1].rstrip("/")
    mine = QueuePlace(order["since"], order["run"], scope, bits, (order["ports"] or [0])[0])
    owners = Owners()
    printed: Any = None
    known: dict[tuple[str, str], str] = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as place:
        place.bind(mine.name)
        while True:
            with open("/proc/net/unix", encoding="utf-8", errors="replace") as source:
                table = source.read()
            there = listeners(table)
            taken = {(word, there[name]) for word, name in names.items() if name in there}
            asked = {each: names[each[0]] for each in taken if not known.get(each)}
            found = leases.holders(asked.values())
            known = {each: str(found[asked[each]] or "") if each in asked else known[each] for each in taken}
            now = blocked(
                mine,
                owners.of([other for other in places(table) if other.is_before(mine)]),
                {word: by for (word, _), by in known.items() if by},
            )
            if now != printed:
                printed = now
                print(json.dumps({"blocked": now}), flush=True)
            ready, _, _ = select.select([sys.stdin], [], [], POLL_S)
            if ready and not sys.stdin.readline():
                return
