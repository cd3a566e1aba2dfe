"""The interface that a run uses on this node: the one that leads to its peers, where nobody has said another."""

from __future__ import annotations

import dataclasses
import socket
from typing import Iterator

from pylaunch.agent import wire
from pylaunch.agent.shared import interfaces

INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def completed(task: wire.NodeTask) -> wire.NodeTask:
    """`task` with the variables that name an interface, where they are missing and the kernel's routes give one answer.

    Several answers, or none, leave the choice to the frameworks.
    """
    missing = [name for name in INTERFACES if name not in task.env]
    others = [address for host, address in task.peers.items() if host != task.host]
    if task.machines < 2 or not others or not missing:
        return task
    try:
        interface, family = interfaces.interface_to(others)
    except interfaces.UndecidedError:
        return task
    found = interfaces.socket_variables(interface, family)
    return dataclasses.replace(task, env={**{name: found[name] for name in found if name not in task.env}, **task.env})


def problems(task: wire.NodeTask) -> Iterator[wire.Reason]:
    """A variable that names an interface which is not here: gloo and NCCL say so late, and in their own words."""
    present = sorted(name for _, name in socket.if_nameindex())
    for variable in INTERFACES:
        value = task.env.get(variable, "")
        wanted = value.lstrip("=").split(",")
        is_prefix = variable.startswith("NCCL_") and not value.startswith("=")
        found = [name for name in present if name in wanted or (is_prefix and name.startswith(tuple(wanted)))]
        if value and not value.startswith("^") and not found:
            text = f"{variable}={value} names no interface here: there are {', '.join(present)}"
            yield wire.Reason("interface-missing", text, "name another with --interface, or correct the variable")
