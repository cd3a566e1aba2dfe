"""Network of a host towards its peers: interface, RDMA adapters, and the files that configure NCCL.

The module `communication` of the Ansible collection uses this file, too. So it imports only the standard library, for
Python >= 3.8. A question has the parameters of the role nccl_env:

    {"peers": [address, …], "interface": name or "", "profile": "auto" or a name, "hcas": [name, …],
     "variables": {name: text, …}}
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import socket
import struct
from typing import Any, NamedTuple

NCCL_CONF = "/etc/nccl.conf"
NODE_ENVIRONMENT = "/etc/pylaunch/environment.json"
MARK = "Written by pylaunch (role nccl_env)"
LINK_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}
LOOPBACK = "lo"

_SIOCGIFCONF = 0x8912
_IFREQ = struct.Struct("16s4s4s16x" if struct.calcsize("P") == 8 else "16s4s4s8x")
_ROOM = 1024
"""Addresses that one request to the kernel can return."""


class UndecidedError(ValueError):
    """No answer for this host; the message is the reason."""


def wanted(question: dict[str, Any]) -> dict[str, Any]:
    """Return the expected profile, interface and variables of this host, and the content of each file."""
    chosen = question["interface"] or (LOOPBACK if question["profile"] == "loopback" else "")
    interface, family = _interface(chosen, question["peers"])
    adapters = _adapters()
    profile = _profile(question["profile"], interface, adapters)
    variables = {"NCCL_DEBUG": "WARN", **socket_variables(interface, family)}
    if profile in LINK_LAYERS:
        variables["NCCL_IB_HCA"] = "=" + ",".join(question["hcas"] or _fastest(profile, adapters))
        if profile == "roce" and family == socket.AF_INET6:
            variables["NCCL_IB_ADDR_FAMILY"] = "AF_INET6"
    variables.update(question["variables"])
    return {
        "profile": profile,
        "interface": interface,
        "variables": variables,
        "files": {NCCL_CONF: _nccl_conf(profile, variables), NODE_ENVIRONMENT: _environment(profile, variables)},
    }


def interface_to(peers: list[str]) -> tuple[str, int]:
    """Return the interface that routes to all `peers`, and its address family. Raises UndecidedError."""
    return _interface("", peers)


def socket_variables(interface: str, family: int) -> dict[str, str]:
    """Return the variables that make NCCL, gloo and TensorPipe use exactly `interface`."""
    variables = {"NCCL_SOCKET_IFNAME": "=" + interface, "GLOO_SOCKET_IFNAME": interface, "TP_SOCKET_IFNAME": interface}
    if family == socket.AF_INET6:
        variables["NCCL_SOCKET_FAMILY"] = "AF_INET6"
    return variables


def is_foreign(path: str) -> bool:
    """Return True if the file exists and was not written by pylaunch."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return MARK not in file.read(4096)
    except FileNotFoundError:
        return False


def _nccl_conf(profile: str, variables: dict[str, str]) -> str:
    lines = [f"# {MARK}, profile {profile}."]
    # Ranks of pylaunch have these variables in their environment, which overrides this file. It serves other programs.
    lines += [f"{name}={value}" for name, value in sorted(variables.items()) if name.startswith("NCCL_")]
    return "\n".join(lines) + "\n"


def _environment(profile: str, variables: dict[str, str]) -> str:
    body = {"about": MARK, "profile": profile, "variables": variables}
    return json.dumps(body, indent=2, sort_keys=True) + "\n"


def _interface(chosen: str, peers: list[str]) -> tuple[str, int]:
    """Return the interface for the ranks of this host, and its address family."""
    sources = {peer: own_address(peer) for peer in peers}
    remote = {peer: source for peer, source in sources.items() if source is not None}
    family = next((family for family, _ in remote.values()), int(socket.AF_INET))
    if chosen:
        present = sorted(name for _, name in socket.if_nameindex())
        if chosen not in present:
            raise UndecidedError(f"the inventory says interface={chosen}, and there are {', '.join(present)}")
        return chosen, family
    if not remote:
        return LOOPBACK, family
    owners = address_owners()
    found: dict[str, str] = {}
    for peer, (_, address) in remote.items():
        if address not in owners:
            raise UndecidedError(f"{peer} is reached from {address}, which no interface has")
        found.setdefault(owners[address], peer)
    if len(found) > 1:
        routes = ", ".join(f"{peer} over {name}" for name, peer in sorted(found.items()))
        raise UndecidedError(f"the members are reached over several interfaces ({routes}): set interface=")
    return next(iter(found)), family


def own_address(peer: str) -> tuple[int, str] | None:
    """Return family and source address of packets to `peer`; None if `peer` is this host."""
    try:
        family, _, _, _, address = socket.getaddrinfo(peer, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            own = str(probe.getsockname()[0])
    except (OSError, UnicodeError) as error:  # UnicodeError: the name is no domain name.
        raise UndecidedError(f"{peer} cannot be reached: {getattr(error, 'strerror', None) or error}") from None
    # Packets to an own address come from that address.
    return None if own == address[0] or own.startswith("127.") or own == "::1" else (int(family), own)


def repeat_queries_soon() -> None:
    """Let glibc repeat a query after 1 s, in place of 5 s. Call it before the first lookup of a process.

    An answer of a name server can be lost: all hosts ask at the same time.
    """
    os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:3")


def address_owners() -> dict[str, str]:
    """Return address → interface for all addresses of this host."""
    owners = {}
    space = array.array("B", bytes(_ROOM * _IFREQ.size))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        # The kernel fills an array of struct ifreq, aliases (eth0:1) included, and returns the length in use.
        answer = fcntl.ioctl(control, _SIOCGIFCONF, struct.pack("iP", len(space), space.buffer_info()[0]))
    for name, _, address in _IFREQ.iter_unpack(space.tobytes()[: struct.unpack("iP", answer)[0]]):
        owners[socket.inet_ntoa(address)] = name.split(b"\0", 1)[0].decode().partition(":")[0]
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except FileNotFoundError:
        return owners
    owners.update({socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])): row[5] for row in rows})
    return owners


class Adapter(NamedTuple):
    """Active port of an InfiniBand or RoCE adapter."""

    name: str
    link_layer: str
    rate: float


def _adapters(root: str = "/sys/class/infiniband") -> list[Adapter]:
    found = []
    for hca in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        ports = os.path.join(root, hca, "ports")
        for port in sorted(os.listdir(ports)):
            state, layer, rate = (_line(os.path.join(ports, port, name)) for name in ("state", "link_layer", "rate"))
            # Example of a state: "4: ACTIVE"; of a rate: "400 Gb/sec (4X NDR)".
            if state.endswith("ACTIVE"):
                found.append(Adapter(f"{hca}:{port}", layer, _number(rate)))
    return found


def _line(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()


def _number(rate: str) -> float:
    try:
        return float(rate.split()[0])
    except (IndexError, ValueError):
        return 0.0


def _profile(chosen: str, interface: str, adapters: list[Adapter]) -> str:
    if chosen != "auto":
        layer = LINK_LAYERS.get(chosen)
        if layer is not None and not any(adapter.link_layer == layer for adapter in adapters):
            raise UndecidedError(f"profile {chosen}, and no {layer} port is active in /sys/class/infiniband")
        return chosen
    if interface == LOOPBACK:
        return "loopback"
    layers = {adapter.link_layer for adapter in adapters}
    return next((profile for profile, layer in LINK_LAYERS.items() if layer in layers), "ethernet")


def _fastest(profile: str, adapters: list[Adapter]) -> list[str]:
    """Return the adapters of the fabric: those with the highest rate, without slower storage and management ports."""
    fitting = [adapter for adapter in adapters if adapter.link_layer == LINK_LAYERS[profile]]
    best = max(adapter.rate for adapter in fitting)
    return [adapter.name for adapter in fitting if adapter.rate == best]
