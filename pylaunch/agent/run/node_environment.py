"""Facts of this node for the environment of its ranks: its user, its routes, and the file that provisioning wrote."""

from __future__ import annotations

import os
import pwd

from pylaunch import protocol
from pylaunch.agent.run.ranks import rank_interface
from pylaunch.agent.shared import rank_files
from pylaunch.base import untrusted_json
from pylaunch.base.dataclass import replace
from pylaunch.base.rank_environment import JOB, Layer, composed_values

MAX_SIZE = 1 << 20
HINT = "pylaunch provision --roles nccl_env writes it again"


class NodeEnvironmentError(Exception):
    """The node's file exists and cannot be used."""

    @property
    def reason(self) -> protocol.Reason:
        """Reason to refuse the run."""
        return protocol.Reason("node-environment", str(self), HINT)


def completed(task: protocol.NodeTask) -> protocol.NodeTask:
    """Return `task` with the layers of this node below its own variables.

    Raises NodeEnvironmentError if the node's file cannot be read or has another format.
    """
    layers = {Layer.USER: user(), Layer.NODE: _node_file(task.env_file), JOB: task.env}
    layers[Layer.ROUTE] = rank_interface.by_route(task, composed_values(layers))
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
        raise NodeEnvironmentError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NodeEnvironmentError(f"{path} is not what pylaunch provision writes") from None


def _checked(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not isinstance(value, str) or "\0" in name + value or "=" in name:
            raise ValueError(name)
    return variables
