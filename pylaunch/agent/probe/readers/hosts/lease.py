"""Holders of the leases of devices and ports on this host."""

from __future__ import annotations

import os
from typing import Any, Mapping

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import leases
from pylaunch.base.layout import NodeRoot, default_root
from pylaunch.protocol.readings.hosts import LeaseHolder, LeasesReading


@reader("lease.holders")
def held(question: Mapping[str, Any]) -> LeasesReading:
    """Return the holders of `devices` (indexes) under `root` and of `ports`, by index and port as text."""
    root = node_root(question["root"]).path
    names = {index: leases.device_name(index, root, default_root()) for index in question["devices"]}
    ports = {port: leases.port_name(port) for port in question["ports"]}
    found = leases.holders([*names.values(), *ports.values()])
    return {"devices": _holders(names, found), "ports": _holders(ports, found)}


def node_root(template: str) -> NodeRoot:
    """Return the node root on this host, which may not exist, without creating it."""
    path = os.path.abspath(template.replace("{user}", str(os.getuid())))
    return NodeRoot(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))


def _holders(names: Mapping[int, str], found: Mapping[str, leases.Holder | None]) -> dict[str, LeaseHolder]:
    holders = {index: found[name] for index, name in names.items()}
    return {str(index): _words(holder) for index, holder in holders.items() if holder is not None}


def _words(found: leases.Holder) -> LeaseHolder:
    return {
        "run": found.run,
        "user": found.user,
        "since": found.since,
        "pid": found.pid,
        "is_ours": found.is_ours,
        "words": str(found),
    }
