"""The environment of ranks: what every framework here gives them."""

from __future__ import annotations

from posixpath import dirname

from pylaunch.model.job import JobSpec
from pylaunch.model.plan import NodePlan, RankPlan, RequiredPath, RunPlan

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def node_environment(plan: RunPlan, node: NodePlan) -> dict[str, str]:
    """What all processes of the run on `node` share. Nothing comes from a login shell; what `--env` says wins.

    The interpreter's directory leads PATH. An interface of the job or the inventory is given to NCCL with the prefix
    `=`, which asks for exactly that name (NCCL user guide, NCCL_SOCKET_IFNAME), to gloo and to TensorPipe as it is.
    Without one the node's agent sets these variables, by its route to the other nodes.
    """
    env = {
        "PATH": f"{dirname(interpreter(plan, node))}:{SYSTEM_PATH}",
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
    }
    interface = plan.job.interface or node.host.interface
    if interface is not None:
        env["GLOO_SOCKET_IFNAME"] = interface
        env["TP_SOCKET_IFNAME"] = interface
        env["NCCL_SOCKET_IFNAME"] = f"={interface}"
    if node.devices:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(device) for device in node.devices)
    return {**env, **plan.job.env}


def threads(node: NodePlan) -> dict[str, str]:
    """What torchrun does of itself for several ranks on a node, with a banner that says so on every node."""
    return {"OMP_NUM_THREADS": "1"} if len(node.ranks) > 1 else {}


def rank_environment(plan: RunPlan, node: NodePlan, rank: RankPlan) -> dict[str, str]:
    """The contract that torchrun made common: https://docs.pytorch.org/docs/stable/elastic/run.html."""
    return {
        "RANK": str(rank.rank),
        "LOCAL_RANK": str(rank.local_rank),
        "WORLD_SIZE": str(plan.world_size),
        "LOCAL_WORLD_SIZE": str(len(node.ranks)),
        "GROUP_RANK": str(node.node_rank),
        "GROUP_WORLD_SIZE": str(len(plan.nodes)),
        "MASTER_ADDR": plan.coordinator.host.rank_address,
        "MASTER_PORT": plan.port,
        "TORCHELASTIC_RESTART_COUNT": str(plan.restart),
        "TORCHELASTIC_MAX_RESTARTS": str(plan.job.max_restarts),
    }


def interpreter(plan: RunPlan, node: NodePlan) -> str:
    """The Python that runs the ranks of `node`: the job's, else the host's."""
    return plan.job.python or node.host.rank_python


MAKES_ENVIRONMENT = "pylaunch provision --roles python_env"
_OTHER = "--python names another interpreter"


def interpreter_need(plan: RunPlan, node: NodePlan) -> RequiredPath:
    """The interpreter, and where one comes from."""
    provisioned = plan.job.python is None and node.host.python is None
    hint = f"{MAKES_ENVIRONMENT} installs it; --python uses another" if provisioned else _OTHER
    return RequiredPath(interpreter(plan, node), hint)


def script_needs(job: JobSpec) -> tuple[RequiredPath, ...]:
    """The script, and how nodes get one. Python itself looks for a module."""
    if job.script is None:
        return ()
    ship = "" if job.sync is not None else "take the code along with --sync ., or "
    return (RequiredPath(job.script, f"{ship}start from a directory that every node has: --workdir DIR"),)
