"""A place in the queue for devices and a port of this node, held by the kernel for as long as this process lives.

A place is a socket with an abstract name that says since when, for which run and for what: everybody on this machine
can read the names in /proc/net/unix, and none of them outlives its holder. Nothing is taken by waiting.

    controller                                this process (one per node and waiting start)
    order, one JSON line       ──►
                               ◄──            {"blocked": [what blocks the start]} whenever that changes; [] is our turn
    end of input               ──►            the place is given up
"""

from __future__ import annotations

import json
import re
import select
import socket
import sys
from dataclasses import dataclass, field, replace
from typing import Any, Mapping

from pylaunch.agent.shared import leases, unix_sockets
from pylaunch.agent.shared.layout import RUN_ID, default_root, open_root

POLL_S = 0.5
"""Between two looks into one file of the kernel; holders are asked who they are only when they are new."""

LISTENS = "00010000"
PLACE = re.compile(
    r"@pylaunch/queue/(?P<since>[0-9a-f]{14})/(?P<run>[^/ ]+)/(?P<scope>[^/ ]*)/(?P<devices>[0-9a-f]+)/(?P<port>\d+)$"
)


@dataclass(frozen=True)
class QueuePlace:
    """Somebody's place. Places are in the order of `since`, then `run`."""

    since: int
    """Microseconds since the epoch on the clock of who waits: the same on all nodes, so that nobody waits in a ring."""

    run: str
    scope: str
    """Roots other than the default have devices of their own (see `leases.device_name`)."""

    devices: int
    """One bit each."""

    port: int
    """0 for none."""

    user: str = field(default="", compare=False)
    """Of the process that keeps it; "" when it was not looked up."""

    @property
    def name(self) -> str:
        """As the kernel keeps it: at most 107 bytes after the first."""
        return f"\0pylaunch/queue/{self.since:014x}/{self.run}/{self.scope}/{self.devices:x}/{self.port}"

    def is_before(self, other: QueuePlace) -> bool:
        """It came earlier, and wants something that `other` wants too."""
        shares = self.scope == other.scope and self.devices & other.devices
        return (self.since, self.run) < (other.since, other.run) and bool(
            shares or (self.port and self.port == other.port)
        )


def places(table: str) -> list[QueuePlace]:
    """The places in /proc/net/unix."""
    found = []
    for line in table.splitlines():
        match = PLACE.search(line)
        if match and RUN_ID.match(match["run"]):
            devices, port = int(match["devices"], 16), int(match["port"])
            found.append(QueuePlace(int(match["since"], 16), match["run"], match["scope"], devices, port))
    return found


def listeners(table: str) -> dict[str, str]:
    """The abstract names in /proc/net/unix that somebody listens on: name → inode of the socket."""
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
    """The users behind places, by the kernel: a line that looks like a place and belongs to nobody is none."""

    def __init__(self) -> None:
        self._uids: dict[str, int] | None = {}

    def of(self, others: list[QueuePlace]) -> list[QueuePlace]:
        """Return `others` with their users."""
        if self._uids is not None and any(other.name not in self._uids for other in others):
            self._uids = unix_sockets.owners()
        uids = self._uids
        if uids is None:
            return others
        return [replace(other, user=leases.user_name(uids[other.name])) for other in others if other.name in uids]


def main() -> None:
    """Keep the place that stdin orders until stdin ends, and say what is in its way."""
    order = json.loads(sys.stdin.readline())
    root = open_root(order["root"], make=False).path
    names = {f"device {each}": leases.device_name(each, root, default_root()) for each in order["devices"]}
    names.update({f"port {port}": leases.port_name(port) for port in order["ports"]})
    bits = sum(1 << index for index in order["devices"])
    scope = leases.device_name(0, root, default_root()).split("/", 2)[2][:-1].rstrip("/")
    mine = QueuePlace(order["since"], order["run"], scope, bits, (order["ports"] or [0])[0])
    owners = Owners()
    said: Any = None
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
            if now != said:
                said = now
                print(json.dumps({"blocked": now}), flush=True)
            ready, _, _ = select.select([sys.stdin], [], [], POLL_S)
            if ready and not sys.stdin.readline():
                return
