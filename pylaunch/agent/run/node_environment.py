"""Variables that this node was provisioned with, below those of a run."""

from __future__ import annotations

import dataclasses

from pylaunch.agent import wire
from pylaunch.agent.shared import rank_files, untrusted_json

MAX_SIZE = 1 << 20
HINT = "pylaunch provision --roles nccl_env writes it anew"


class NodeEnvironmentError(Exception):
    """The node's file is there and cannot be used."""

    @property
    def reason(self) -> wire.Reason:
        """The same, for the controller."""
        return wire.Reason("node-environment", str(self), HINT)


def completed(task: wire.NodeTask) -> wire.NodeTask:
    """`task` with the variables of its `env_file` below its own. Raises NodeEnvironmentError for a file unlike one."""
    if task.env_file is None:
        return task
    try:
        content = rank_files.read_whole(task.env_file, MAX_SIZE, follow=True)
        variables = untrusted_json.parse_object(content, MAX_SIZE)["variables"]
        return dataclasses.replace(task, env={**_checked(variables), **task.env})
    except FileNotFoundError:
        return task
    except OSError as error:
        raise NodeEnvironmentError(f"{task.env_file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NodeEnvironmentError(f"{task.env_file} is not what pylaunch provision writes") from None


def _checked(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not isinstance(value, str) or "\0" in name + value or "=" in name:
            raise ValueError(name)
    return variables
