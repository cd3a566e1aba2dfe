"""The page of a rank's environment states the layers of the code. To write it: UPDATE_GOLDEN=1 pytest tests/golden."""

import re
from pathlib import Path

from pylaunch.base.rank_environment import AGENT_VARIABLES, RUNTIME_PATH, Layer
from pylaunch.model.cluster import Cluster, Host
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import NodeCommand, plan_run
from pylaunch.render import render
from tests.golden.files import golden, refilled

NAME = re.compile(r"[A-Z]+|[A-Za-z]+_\w+")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "rank-environment.md"

TABLE = "| | layer | variables | from |\n|---|---|---|---|\n"

FRAMEWORKS = """
## Variables of each framework

The layers `framework` and `identity` depend on `--framework`. All frameworks except NONE set COMMON.

| framework | layer `framework` | further variables of the layer `identity` |
|---|---|---|
"""

RECORDER = (
    "the agent on the node: torch records the last 2000 collectives, and writes them into the directory of the run "
    "when NCCL times out; for a torch before 2.8 beside the interpreter of the ranks, also under the older names of "
    "the variables"
)
AGENT = (
    f"the agent on the node; `{RUNTIME_PATH}` is a directory of the agent whose `sitecustomize` runs the next one and "
    "then answers [`pylaunch stacks`](../guides/runs.md), the layers above, and the path of `pylaunch.runtime`"
)
ROWS = {
    Layer.RECORDER: ("TORCH_FR_BUFFER_SIZE, TORCH_FR_DUMP_TEMP_FILE, TORCH_NCCL_DUMP_ON_TIMEOUT", RECORDER),
    Layer.USER: ("HOME, USER, LOGNAME, SHELL", "the user database of the node"),
    Layer.ROUTE: (
        "NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME, TP_SOCKET_IFNAME, NCCL_SOCKET_FAMILY",
        "the interface by which the node routes to the other nodes, if there is exactly one",
    ),
    Layer.NODE: (
        "variables of the network, and `nccl_env_variables` of the inventory",
        "`/etc/pylaunch/environment.json` on the node, written by the role `nccl_env`",
    ),
    Layer.DEFAULTS: ("", "the run: `PATH` begins with the directory of the interpreter"),
    Layer.FRAMEWORK: ("see below", "`--framework`"),
    Layer.INVENTORY: ("", "`interface=`, `gpus=` and `devices=` of the host"),
    Layer.FLAGS: ("any", "`--interface`, below `--env-file`, below `--env`"),
    Layer.SECRETS: ("any", "`--secret`, and variables of `--env` with the name of a secret"),
    Layer.LAUNCHER: ("those of torchrun", "torchrun, in the ranks that it starts; the variables below win"),
    Layer.IDENTITY: ("see below", "the place of the rank in the run"),
    Layer.AGENT: (", ".join((*AGENT_VARIABLES, RUNTIME_PATH)), AGENT),
}


def rendered(framework: Framework) -> NodeCommand:
    hosts = tuple(Host(name, name, devices=(0, 1), interface="eth0") for name in ("n1", "n2"))
    plan = plan_run(Cluster(hosts), JobSpec(("train.py",), framework, "/", env={"ANY": ""}), "7f3a9c01")
    return render(plan)[0][1]


def code(names: str) -> str:
    return ", ".join(f"`{name}`" if NAME.fullmatch(name) else name for name in names.split(", "))


def page() -> str:
    """Return the reference as it should be."""
    commands = {framework: rendered(framework) for framework in Framework}
    layers = commands[Framework.TORCHRUN].layers
    rows = ""
    for number, layer in enumerate(Layer, 1):
        variables, source = ROWS[layer]
        rows += f"| {number} | `{layer.value}` | {code(variables or ', '.join(layers[layer]))} | {source} |\n"
    without = [f"`{framework.value}`" for framework, each in commands.items() if not each.ranks[0].env]
    common = set.intersection(*(set(each.ranks[0].env) for each in commands.values() if each.ranks[0].env))
    rows += FRAMEWORKS.replace("NONE", ", ".join(without)).replace("COMMON", code(", ".join(sorted(common))))
    for framework, command in commands.items():
        chosen = ", ".join(sorted(command.layers[Layer.FRAMEWORK]))
        further = ", ".join(sorted(command.ranks[0].env.keys() - common))
        rows += f"| `{framework.value}` | {code(chosen) if chosen else ''} | {code(further) if further else ''} |\n"
    return refilled(PAGE, TABLE, rows, "\n\n`OMP_NUM_THREADS`")


def test_the_reference_of_the_environment_of_a_rank_states_the_layers_of_the_code() -> None:
    assert page() == golden(PAGE, page())
