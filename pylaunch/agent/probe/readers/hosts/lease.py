"""Holders of the leases of devices and ports on this host."""

from __future__ import annotations

from typing import Any, Mapping

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared import leases
from pylaunch.base.layout import default_root, open_root
from pylaunch.protocol.readings.hosts import LeaseHolder, LeasesReading


@reader("lease.holders")
def held(question: Mapping[str, Any]) -> LeasesReading:
    """Return the holders of `devices` (indexes) under `root` and of `ports`, by index and port as text."""
    root = open_root(question["root"], make=False).path
    names = {index: leases.device_name(index, root, default_root()) for index in question["devices"]}
    ports = {port: leases.port_name(port) for port in question["ports"]}
    found = leases.holders([*names.values(), *ports.values()])
    return {"devices": _holders(names, found), "ports": _holders(ports, found)}


def _holders(names: Mapping[int, str], found: Mapping[str, leases.Holder | None]) -> dict[str, LeaseHolder]:
    holders = {index: found[name] for index, name in names.items()}
    return {str(index): _words(holder) for index, holder in holders.items() if holder is not None}


def _words(found: leases.Holder) -> LeaseHolder:
    return {"run": found.run, "user": found.user, "since": found.since, "pid": found.pid, "words": str(found)}
