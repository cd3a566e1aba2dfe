"""Network interfaces of a host, its routes to peers, and the configuration that the role nccl_env manages."""

from __future__ import annotations

import json
import os
import socket

from pylaunch.agent.probe.registry import reader
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.agent.shared.text import text_or_none
from pylaunch.protocol.readings.hosts import InterfaceReading, RouteReading

CLASS = "/sys/class/net"
_IFF_LOOPBACK = 0x8


@reader("network.interfaces")
def interface_list(question: None) -> dict[str, InterfaceReading]:
    """Return every interface with settings and counters; None for values that its driver does not report."""
    return {name: _interface(os.path.join(CLASS, name)) for _, name in socket.if_nameindex()}


def _interface(path: str) -> InterfaceReading:
    counters = os.path.join(path, "statistics")
    flags = int(text_or_none(os.path.join(path, "flags")) or "0", 16)
    return {
        "mtu": _number(os.path.join(path, "mtu")),
        "carrier": _number(os.path.join(path, "carrier")),
        "speed": _number(os.path.join(path, "speed")),
        "rx_packets": _number(os.path.join(counters, "rx_packets")),
        "tx_packets": _number(os.path.join(counters, "tx_packets")),
        "rx_errors": _number(os.path.join(counters, "rx_errors")),
        "tx_errors": _number(os.path.join(counters, "tx_errors")),
        "rx_dropped": _number(os.path.join(counters, "rx_dropped")),
        "tx_dropped": _number(os.path.join(counters, "tx_dropped")),
        "state": text_or_none(os.path.join(path, "operstate")),
        "duplex": text_or_none(os.path.join(path, "duplex")),
        "loopback": bool(flags & _IFF_LOOPBACK),
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


@reader("network.configured")
def configured(question: None) -> dict[str, str] | None:
    """Return the variables that provisioning sets for every run; None without them."""
    try:
        with open(interfaces.NODE_ENVIRONMENT, encoding="utf-8") as file:
            return dict(json.load(file)["variables"])
    except FileNotFoundError:
        return None
    except (KeyError, TypeError) as error:
        text = f"{interfaces.NODE_ENVIRONMENT} is not what pylaunch provision writes: {error!r}"
        raise ValueError(text) from None
