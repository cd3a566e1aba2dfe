"""Layers of the environment of a rank, and which layer wins. Pure; the controller and the agent both compose with it.

The controller knows the layers from DEFAULTS to FLAGS and sends them composed, as `NodeTask.env`. The agent adds the
layers below (RECORDER to NODE) and those above. Nothing else decides which value a rank gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass


class Layer(Enum):
    """Sources of variables. A later member wins over an earlier one."""

    RECORDER = "flight recorder"
    """Settings of torch's flight recorder, which records the last collectives of a rank."""

    USER = "user"
    """HOME, USER, LOGNAME and SHELL from the user database of the node."""

    ROUTE = "route"
    """Network interface by which the node routes to its peers."""

    NODE = "node file"
    """/etc/pylaunch/environment.json of the node, written by the role nccl_env."""

    DEFAULTS = "defaults"
    FRAMEWORK = "framework"
    INVENTORY = "inventory"
    FLAGS = "flags"
    """--interface, below --env."""

    SECRETS = "secrets"
    IDENTITY = "identity"
    """Place of one rank in the run. It wins over what torchrun sets in the ranks that it starts."""

    AGENT = "agent"


JOB = Layer.FLAGS
"""Layer of `NodeTask.env` on the node: the controller has merged DEFAULTS to FLAGS, and no layer of the node is between
them."""

RUNTIME_PATH = "PYTHONPATH"
"""Set in the layer AGENT: a directory of the agent, the value of the layers below, and the archive that contains
pylaunch.runtime."""

AGENT_VARIABLES = (
    "PYLAUNCH_RUN",
    "PYLAUNCH_ROOT",
    "PYLAUNCH_NODE_RANK",
    "PYLAUNCH_HOSTFILE",
    "PYLAUNCH_RANK",
    "PYLAUNCH_LOCAL_RANK",
    "PYLAUNCH_STEP_FILE",
    "PYLAUNCH_RANK_SOCKET",
    "TORCHELASTIC_ERROR_FILE",
)
"""Names of the layer AGENT besides RUNTIME_PATH."""


@dataclass(frozen=True)
class ComposedVariable:
    """Value of a variable, and the layer it is from."""

    value: str
    layer: Layer


def compose(layers: Mapping[Layer, Mapping[str, str]]) -> dict[str, ComposedVariable]:
    """Return every variable of `layers` with the value of the highest layer that sets it."""
    return {name: ComposedVariable(value, layer) for layer in Layer for name, value in layers.get(layer, {}).items()}


def composed_values(layers: Mapping[Layer, Mapping[str, str]]) -> dict[str, str]:
    """Return the environment that `layers` make."""
    return {name: variable.value for name, variable in compose(layers).items()}
