"""Layers of the environment of ranks that the controller knows, and paths that every framework needs."""

from collections.abc import Mapping
from posixpath import dirname

from pylaunch.base.rank_environment import Layer
from pylaunch.model.job import JobSpec
from pylaunch.model.plan import NodePlan, RankPlan, RequiredPath, RunPlan

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def node_layers(
    plan: RunPlan, node: NodePlan, framework: Mapping[str, str] | None = None
) -> Mapping[Layer, Mapping[str, str]]:
    """Return the layers that all processes of the run on `node` share, with the variables of its `framework`.

    The interpreter's directory leads PATH. In a container, PATH is that of the image, unless a path names the
    interpreter.
    """
    directory = dirname(interpreter(plan, node))
    is_of_the_image = plan.job.container is not None and not directory
    path = {} if is_of_the_image else {"PATH": ":".join(filter(None, (directory, SYSTEM_PATH)))}
    is_named = node.devices or node.host.withholds_devices
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, node.devices))} if is_named else {}
    return {
        Layer.DEFAULTS: {**path, "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"},
        Layer.FRAMEWORK: framework or {},
        Layer.INVENTORY: {**_interface(node.host.interface), **devices},
        Layer.FLAGS: {**_interface(plan.job.interface), **plan.job.env},
    }


def _interface(name: str | None) -> dict[str, str]:
    """Return the variables that name an interface. To NCCL a leading `=` means exactly that name (NCCL user guide)."""
    if name is None:
        return {}
    return {"GLOO_SOCKET_IFNAME": name, "TP_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": f"={name}"}


def threads(node: NodePlan) -> dict[str, str]:
    """Return the limit that torchrun sets for several ranks on a node, without the banner that it prints."""
    return {"OMP_NUM_THREADS": "1"} if len(node.ranks) > 1 else {}


def rank_environment(plan: RunPlan, node: NodePlan, rank: RankPlan) -> dict[str, str]:
    """Return the variables that torchrun defines: https://docs.pytorch.org/docs/stable/elastic/run.html."""
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
    """Return the Python that runs the ranks of `node`: the job's, else the host's."""
    return plan.job.python or node.host.rank_python


MAKES_ENVIRONMENT = "pylaunch provision --roles python_env"
_OTHER = "--python names another interpreter (/usr/bin/python3 for a script without packages)"
_OF_EACH = f"{_OTHER}, pylaunch_python= in the inventory one for each host"


def interpreter_needs(plan: RunPlan, node: NodePlan) -> tuple[RequiredPath, ...]:
    """Return the path of the interpreter, with a hint how to install it; nothing for one that is found on PATH."""
    if not dirname(interpreter(plan, node)):
        return ()
    provisioned = plan.job.python is None and node.host.python is None
    this = "this one" if node.host.env_name is None else f"environment {node.host.env_name}"
    is_of_slurm = node.host.slurm_job is not None
    other = _OTHER if is_of_slurm else _OF_EACH
    hint = f"{other}; {this} is installed by: {MAKES_ENVIRONMENT}" if provisioned and not is_of_slurm else other
    return (RequiredPath(interpreter(plan, node), hint),)


def script_needs(job: JobSpec) -> tuple[RequiredPath, ...]:
    """Return the path of the script, with a hint what to change; nothing for a module, which Python finds."""
    if job.script is None:
        return ()
    ship = "" if job.sync is not None else "take the code along with --sync ., "
    hint = f"correct the path, {ship}or start from a directory that every node has: --workdir DIR"
    return (RequiredPath(job.script, hint),)
