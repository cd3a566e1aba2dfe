"""Network interfaces of a host and its routes to peers."""

from __future__ import annotations

import os
import socket

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import text_or_none
from pylaunch.protocol.readings.hosts import InterfaceReading, RouteReading

CLASS = "/sys/class/net"


@reader("network.interfaces")
def interface_list(question: None) -> dict[str, InterfaceReading]:
    """Return every interface with its settings; None for values that its driver does not report."""
    return {name: _interface(os.path.join(CLASS, name)) for _, name in socket.if_nameindex()}


def _interface(path: str) -> InterfaceReading:
    return {
        "mtu": _number(os.path.join(path, "mtu")),
        "carrier": _number(os.path.join(path, "carrier")),
        "speed": _number(os.path.join(path, "speed")),
        "state": text_or_none(os.path.join(path, "operstate")),
    }


def _number(path: str) -> int | None:
    text = text_or_none(path)  # EINVAL: the driver has no value, or the interface is down.
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


@reader("network.routes")
def routes(question: list[str]) -> dict[str, RouteReading]:
    """Return for each address the interface and source address of its route, or the reason for none."""
    interfaces.repeat_queries_soon()
    owners = interfaces.address_owners()
    found: dict[str, RouteReading] = {}
    for address in question:
        try:
            source = interfaces.own_address(address)
        except interfaces.UndecidedError as error:
            found[address] = {"why": str(error)}
            continue
        if source is None:
            found[address] = {"interface": interfaces.LOOPBACK, "source": None}
        else:
            found[address] = {"interface": owners.get(source[1]), "source": source[1]}
    return found
