"""Variables of the ranks that this node adds: its user, its file, interface to its peers, torch's flight recorder."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterator

from pylaunch import protocol
from pylaunch.agent.shared import rank_files
from pylaunch.agent.shared.essentials import installed_libraries
from pylaunch.agent.shared.sockets import interfaces
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import replace
from pylaunch.base.layout import RunDirectory
from pylaunch.base.rank_environment import JOB, Layer, composed_values


class RefusedError(Exception):
    """This node cannot take part in the run."""

    def __init__(self, *reasons: protocol.Reason) -> None:
        super().__init__("; ".join(reason.message for reason in reasons))
        self.reasons = reasons


RECORDED = "2000"
"""Collectives that a rank keeps: the default of torch from 2.11 on; older versions keep none."""

NEWER = (2, 8)
"""Version of torch from which on it warns of the names that older versions know."""

OLDER_NAMES = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}
TRACES = "ranks/nccl-trace-"
"""Beginning of the path of NCCL's dumps, to which torch appends the rank."""


def recorder_settings(task: protocol.NodeTask, directory: RunDirectory) -> dict[str, str]:
    """Return the variables for the torch beside the interpreter of the ranks.

    For a torch that is elsewhere they have the newer names alone: an older torch records nothing then, which costs a
    run nothing, but a newer one would print a warning in each rank about the names of an older one.
    """
    found = {"TORCH_FR_BUFFER_SIZE": RECORDED, "TORCH_FR_DUMP_TEMP_FILE": directory.file(TRACES)}
    numbers = re.match(r"(\d+)\.(\d+)", installed_libraries(task.python).get("torch", ""))
    if numbers is not None and (int(numbers[1]), int(numbers[2])) < NEWER:
        found.update({OLDER_NAMES[name]: value for name, value in list(found.items())})
    return {**found, "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


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


def interface_problems(task: protocol.NodeTask) -> Iterator[protocol.Reason]:
    """Yield variables that name an interface this node lacks, which gloo and NCCL report late and without its name, or
    loopback, as on a node that was provisioned as the only one."""
    present = sorted(name for _, name in socket.if_nameindex())
    for variable in INTERFACES:
        value = task.env.get(variable, "")
        wanted = value.lstrip("=").split(",")
        is_prefix = variable.startswith("NCCL_") and not value.startswith("=")
        found = [name for name in present if name in wanted or (is_prefix and name.startswith(tuple(wanted)))]
        if value and not value.startswith("^") and not found:
            text = f"{variable}={value} names no interface here: there are {', '.join(present)}"
            yield protocol.Reason("interface-missing", text, "name another with --interface, or correct the variable")
        elif task.machines > 1 and wanted == ["lo"]:
            text = f"{variable} is lo here, over which none of the other machines can be reached"
            yield protocol.Reason("loopback-interface", text, "pylaunch provision --roles nccl_env")


MAX_SIZE = 1 << 20
HINT = "pylaunch provision --roles nccl_env writes it again"


def completed(task: protocol.NodeTask) -> protocol.NodeTask:
    """Return `task` with the layers of this node below its own variables.

    Raises RefusedError if the node's file cannot be read or has another format.
    """
    layers = {Layer.USER: user(), Layer.NODE: _node_file(task.env_file), JOB: task.env}
    layers[Layer.ROUTE] = by_route(task, composed_values(layers))
    return replace(task, env=composed_values(layers))


def user() -> dict[str, str]:
    """Return the variables that a login would set for this user; none if the user database does not have the user."""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return {}
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name, "SHELL": entry.pw_shell}


def _node_file(path: str | None) -> dict[str, str]:
    """Return the variables of the node's file; none where there is no such file."""
    if path is None:
        return {}
    try:
        content = rank_files.read_whole(path, MAX_SIZE, follow=True)
        return _checked(untrusted_json.parse_object(content, MAX_SIZE)["variables"])
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError):
        why = "is not what pylaunch provision writes"
    raise RefusedError(protocol.Reason("node-environment", f"{path} {why}", HINT))


def _checked(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not isinstance(value, str) or "\0" in name + value or "=" in name:
            raise ValueError(name)
    return variables
