"""Network interface of the ranks on this node: the one by which it routes to its peers, unless a variable names one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from pylaunch import protocol
from pylaunch.agent.shared.sockets import interfaces

INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def by_route(task: protocol.NodeTask, env: dict[str, str]) -> dict[str, str]:
    """Return the variables that make NCCL, gloo and TensorPipe use the interface to the peers of `task`.

    Empty if `env` sets all of INTERFACES, if all nodes are on one machine, or if the routes to the peers do not
    share one interface; then the frameworks choose.
    """
    others = [address for host, address in task.peers.items() if host != task.host]
    if task.machines < 2 or not others or all(name in env for name in INTERFACES):
        return {}
    try:
        interface, family = interfaces.interface_to(others)
    except interfaces.UndecidedError:
        return {}
    return interfaces.socket_variables(interface, family)


def problems(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Yield variables that name an interface this node lacks: gloo and NCCL report it late and without its name."""
    present = sorted(name for _, name in socket.if_nameindex())
    for variable in INTERFACES:
        value = task.env.get(variable, "")
        wanted = value.lstrip("=").split(",")
        is_prefix = variable.startswith("NCCL_") and not value.startswith("=")
        found = [name for name in present if name in wanted or (is_prefix and name.startswith(tuple(wanted)))]
        if value and not value.startswith("^") and not found:
            text = f"{variable}={value} names no interface here: there are {', '.join(present)}"
            yield protocol.Reason("interface-missing", text, "name another with --interface, or correct the variable")
