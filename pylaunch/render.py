"""Command lines and layers of the environment that a framework needs for a plan. Pure.

The agent starts the ranks of a script itself, without a launcher on the node, so that the framework is imported only
once; `torchrun` has a launcher on each node.
"""

from collections.abc import Callable, Mapping, Sequence
from posixpath import dirname

from pylaunch.base.dataclass import dataclass
from pylaunch.base.rank_environment import Layer
from pylaunch.errors import UsageError
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.plan import NodeCommand, NodePlan, RankCommand, RankPlan, RequiredPath, RunPlan, base_of, plan_run
from pylaunch.model.run import Notes
from pylaunch.model.secret import MASK, secret_options, variable_of
from pylaunch.model.text.argv import Argv

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


def hostfile(plan: RunPlan) -> str:
    """Return the hostfile, as Open MPI and DeepSpeed read it, with the addresses by which ranks reach each other."""
    return "".join(f"{node.host.rank_address} slots={len(node.ranks)}\n" for node in plan.nodes)


@dataclass(frozen=True)
class Dialect:
    """Additions of a framework to the commands and variables that all frameworks have."""

    gloo: str
    """See `NodeCommand.gloo`."""

    env: Mapping[str, str]
    """Variables of the layer FRAMEWORK, the same for all ranks of a node."""

    rank_env: Callable[[RankPlan], Mapping[str, str]]
    """Variables of the layer IDENTITY beside those that all frameworks have."""

    entry: Argv = ()
    """Arguments between the interpreter and the script."""

    arguments: Callable[[RankPlan], Argv] = lambda rank: ()
    """Arguments between the script and its own arguments."""


def of_script(plan: RunPlan, node: NodePlan, dialect: Dialect) -> NodeCommand:
    """Return the commands of `node`, whose agent starts each rank."""
    python = interpreter(plan, node)
    entry = plan.job.entry
    arguments = plan.job.command[len(entry) :]

    def command(rank: RankPlan) -> RankCommand:
        argv = (python, "-u", *dialect.entry, *entry, *dialect.arguments(rank), *arguments)
        return RankCommand(argv, {**rank_environment(plan, node, rank), **dialect.rank_env(rank)})

    return NodeCommand(
        launcher=(),
        layers=node_layers(plan, node, {**threads(node), **dialect.env}),
        ranks=tuple(map(command, node.ranks)),
        needs=(*interpreter_needs(plan, node), *script_needs(plan.job)),
        gloo=dialect.gloo,
    )


RANK_ENTRY = "@rank"
LAUNCHER_FILES = "@launcher-files"


def torchrun(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the torchrun command of `node`. It starts the agent's rank entry, which starts the script.

    Without --log-dir, torchrun leaves a directory in TMPDIR after every run. Rendezvous is static because c10d ignores
    node ranks and hangs without a message if another process listens on its port. Each attempt of the run is a
    torchrun of its own, and ranks get the id that all attempts share.
    """
    python = interpreter(plan, node)
    launcher = (
        python, "-m", "torch.distributed.run",
        f"--nnodes={len(plan.nodes)}",
        f"--node-rank={node.node_rank}",
        f"--nproc-per-node={len(node.ranks)}",
        f"--master-addr={plan.coordinator.host.rank_address}",
        f"--master-port={plan.port}",
        f"--rdzv-id={plan.run}",
        "--max-restarts=0",
        f"--log-dir={LAUNCHER_FILES}",
        "--no-python",
        RANK_ENTRY,
    )  # fmt: skip
    argv = (python, "-u", *plan.job.command)
    identity = {"TORCHELASTIC_RUN_ID": base_of(plan.run)}
    return NodeCommand(
        launcher=launcher,
        layers=node_layers(plan, node, threads(node)),
        ranks=tuple(RankCommand(argv, {**rank_environment(plan, node, rank), **identity}) for rank in node.ranks),
        needs=(*interpreter_needs(plan, node), *script_needs(plan.job)),
        gloo="torch",
    )


TORCH_ENVIRONMENT = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
}
"""torchrun's defaults. A rank whose NCCL collective has failed ends instead of waiting. Torch elastic reads the signals
in a rank that starts workers of its own."""


def elastic_environment(plan: RunPlan, rank: RankPlan) -> Mapping[str, str]:
    """Return the variables of torch elastic: one role for all ranks, and an id that all attempts share."""
    return {
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank.rank),
        "ROLE_WORLD_SIZE": str(plan.world_size),
        "TORCHELASTIC_RUN_ID": base_of(plan.run),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def direct(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`, in torchrun's environment.

    Without torchrun there are no timers, because their server is in torchrun's agent, and no agent store: rank 0 hosts
    the store at MASTER_ADDR:MASTER_PORT. `agent.shared.scripts.choose` recognises scripts that need one of them.
    """
    return of_script(
        plan, node, Dialect("torch", TORCH_ENVIRONMENT, lambda rank: elastic_environment(plan, rank))
    )  # fmt: skip


def of_command(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`. A program given by path must exist; one given by name is found on PATH."""
    program = plan.job.command[0]
    return NodeCommand(
        launcher=(),
        layers=node_layers(plan, node),
        ranks=tuple(RankCommand(plan.job.command, rank_environment(plan, node, rank)) for rank in node.ranks),
        needs=script_needs(plan.job) if "/" in program else (),
    )


JAX_ENTRY = ("-m", "pylaunch.runtime")
"""Entry point that keeps a failed process from waiting for the others in JAX's shutdown barrier."""


def jax(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`. On CPUs, collectives use JAX's own gloo, which reads no interface.

    JAX reads them only from launchers that it knows. Open MPI's variables are the ones with the fewest other readers
    (Slurm's change what W&B, Lightning and submitit do).
    """
    address, port = plan.coordinator.host.rank_address, plan.port
    scheme, host = ("tcp6", f"[{address}]") if ":" in address else ("tcp", address)
    coordinator = {
        "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
        "OMPI_MCA_orte_hnp_uri": f"0.0;{scheme}://{host}:{port}",
    }

    def rank_env(rank: RankPlan) -> Mapping[str, str]:
        return {
            "OMPI_COMM_WORLD_SIZE": str(plan.world_size),
            "OMPI_COMM_WORLD_RANK": str(rank.rank),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(rank.local_rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(len(node.ranks)),
        }

    return of_script(plan, node, Dialect("" if node.devices else "jax", coordinator, rank_env, JAX_ENTRY))


USE_CPU = "ACCELERATE_USE_CPU"


def accelerate(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`. Raises UsageError if only some nodes have devices: their ranks cannot meet.

    Its launcher starts total // machines processes on each machine, so 3 on 2 become 2, and with --cpu it starts a job
    of its own on every machine (measured with 1.15). `accelerate.Accelerator()` reads only the environment.
    """
    bare = [each.host.name for each in plan.nodes if not each.devices]
    if bare and len(bare) < len(plan.nodes) and USE_CPU not in plan.job.env:
        raise UsageError(
            f"{fold(bare)} {'has' if len(bare) == 1 else 'have'} no devices in the inventory and other nodes have: "
            "accelerate would talk over gloo on the ones and over NCCL on the others",
            hint=f"gpus= or devices= in the inventory, --limit, or --env {USE_CPU}=true to train on CPUs everywhere",
        )
    env = {**TORCH_ENVIRONMENT, USE_CPU: "true" if bare else "false"}
    return of_script(
        plan, node, Dialect("torch", env, lambda rank: elastic_environment(plan, rank))
    )  # fmt: skip


def deepspeed(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`, with the argument --local_rank=N first, as DeepSpeed scripts expect.

    The launcher checks only the first host before it starts, forwards variables by their prefix, and leaves the other
    nodes running when one fails (measured with 0.19.8).
    """

    def rank_env(rank: RankPlan) -> Mapping[str, str]:
        return {
            **elastic_environment(plan, rank),
            "CROSS_RANK": str(node.node_rank),
            "CROSS_SIZE": str(len(plan.nodes)),
            "LOCAL_SIZE": str(len(node.ranks)),
        }

    dialect = Dialect(
        "torch", TORCH_ENVIRONMENT, rank_env, arguments=lambda rank: (f"--local_rank={rank.local_rank}",)
    )  # fmt: skip
    return of_script(plan, node, dialect)


RAY_NODE = ("-u", "-m", "pylaunch.runtime.ray_node")
SHORT_DIRECTORY = "@short-directory"


def ray(plan: RunPlan, node: NodePlan) -> NodeCommand:
    """Return the commands of `node`.

    vLLM reads VLLM_HOST_IP on each node, and Ray does not pass it on. Without RAY_AUTH_MODE, a head whose user has a
    token of Ray asks for it, and the other nodes send none.

    Ranks do not get RANK, WORLD_SIZE or MASTER_ADDR: every process of Ray would inherit those of its node.
    """
    address, python = node.host.rank_address, interpreter(plan, node)
    place = (str(node.node_rank), str(len(plan.nodes)), plan.coordinator.host.rank_address, plan.port)
    devices = (f"--num-gpus={len(node.devices)}",) if node.devices else ()
    argv = (python, *RAY_NODE, *place, address, SHORT_DIRECTORY, *devices, "--", *plan.job.command)
    return NodeCommand(
        launcher=(),
        layers=node_layers(
            plan, node, {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "VLLM_HOST_IP": address}
        ),
        ranks=tuple(RankCommand(argv, {}) for _ in node.ranks),
        needs=(*interpreter_needs(plan, node), *script_needs(plan.job)),
    )


_RENDERERS = {
    Framework.TORCHRUN: torchrun,
    Framework.DIRECT: direct,
    Framework.JAX: jax,
    Framework.ACCELERATE: accelerate,
    Framework.DEEPSPEED: deepspeed,
    Framework.RAY: ray,
    Framework.COMMAND: of_command,
}


def render(plan: RunPlan) -> tuple[tuple[NodePlan, NodeCommand], ...]:
    """Return every node of `plan` with its commands.

    Raises UsageError for a plan that the framework cannot run as planned.
    """
    renderer = _RENDERERS[plan.job.framework]
    return tuple((node, renderer(plan, node)) for node in plan.nodes)


def remarks(plan: RunPlan) -> tuple[str, ...]:
    """Return decisions of the framework that a person may not expect, one line each: accelerate trains on CPUs."""
    if plan.job.framework is not Framework.ACCELERATE:
        return ()
    if USE_CPU in plan.job.env or any(node.devices for node in plan.nodes):
        return ()
    return (f"no devices in the inventory: accelerate trains on CPUs ({USE_CPU}=true; gpus= or devices= changes it)",)


@dataclass(frozen=True)
class PlannedRun:
    """A planned attempt: every node with the commands that it will execute."""

    plan: RunPlan
    commands: tuple[tuple[NodePlan, NodeCommand], ...]


def plan_start(cluster: Cluster, job: JobSpec, run: str, say: Notes) -> PlannedRun:
    """Plan `run`, an id, of `job` on `cluster`. No host is contacted.

    `say` gets remarks. Raises UsageError for a job that does not fit the cluster.
    """
    planned = planned_run(plan_run(cluster, job, run))
    for remark in remarks(planned.plan):
        say(remark)
    if names := secret_options(job.command):
        say(_secrets_shown(names))
    return planned


def _secrets_shown(names: Sequence[str]) -> str:
    """Return the note for secrets on the command line; records and views mask them."""
    first = next((variable_of(name) for name in names if not name.startswith("argument ")), "NAME")
    return (
        f"note: {', '.join(names)}: every user of a node can read the values of a command line. Records and views show "
        f"{MASK}; to keep a value to the ranks, read it from a variable: --secret {first}"
    )


def planned_run(plan: RunPlan) -> PlannedRun:
    """Return `plan` with the commands of its nodes."""
    return PlannedRun(plan, render(plan))
