"""Task of one node in a run: the content of `Prepare`."""

from __future__ import annotations

from pylaunch.base.dataclass import dataclass, field
from pylaunch.protocol.fields import WireError


@dataclass(frozen=True)
class RankTask:
    """Rank to start on a node."""

    rank: int
    local_rank: int
    argv: list[str]
    env: dict[str, str]
    """Variables of this rank, added to those of the node."""


@dataclass(frozen=True)
class Need:
    """Path that must exist, relative to the working directory; `hint` is shown when it does not."""

    path: str
    hint: str


@dataclass(frozen=True)
class MountTask:
    """Directory or file of the node that ranks in a container see."""

    source: str
    target: str
    read_only: bool = False


CONTAINER_IMAGE = "container image"
"""Name of the hash of the image in `Ready.essentials`."""

GPU_MODELS = "gpu models"
"""Name of models and memory of the GPUs in `Ready.essentials`. They may differ: machines need not be equal."""


@dataclass(frozen=True)
class ContainerTask:
    """Container of the ranks and the launcher of a node."""

    image: str
    """Name in the store of podman or docker, or the path of a file on the node."""

    mounts: list[MountTask]


@dataclass(frozen=True)
class NodeTask:
    """Everything that one node needs to take part in a run."""

    run: str
    host: str
    node_rank: int
    workdir: str
    ranks: list[RankTask]
    env: dict[str, str]
    """Variables of the ranks and the launcher: layers that the controller has merged (`base/rank_environment.py`)."""

    launcher: list[str]
    """Command that starts the ranks of this node (torchrun), or [] when the agent starts them itself.
    The agent replaces the word RANK_ENTRY with the command that starts one rank through the agent, and LAUNCHER_FILES
    in any word with a directory for the launcher's files, which it removes when the run ends."""

    hold_port: int | None
    """Rendezvous port to bind during preparation; None on nodes that do not host the rendezvous."""

    devices: list[int]
    """Indices of the accelerators that this node leases to the run."""

    needs: list[Need]
    """Paths that must exist before anything starts: interpreter, script."""

    grace_s: float
    """Seconds between SIGTERM and SIGKILL when the node stops because a rank failed."""

    world_size: int
    python: str = ""
    """Interpreter of the ranks, whose environment `Ready` reports; "" for ranks that need none."""

    env_file: str | None = None
    """JSON file on this node, {"variables": {…}}, whose variables have lower precedence than `env`. May be missing."""

    log_limit: int = 0
    """Bytes that one log file may occupy on disk; the agent removes the middle of a larger one. 0 is no limit."""

    machines: int = 1
    """Number of machines on which the nodes of the run are."""

    peers: dict[str, str] = field(default_factory=dict)
    """Address of every node of the run by host, in rank order, this node included."""

    node_timeout_s: float = 10.0
    """Heartbeat timeout in seconds, after which a node counts as lost."""

    ends_with_controller: bool = False
    """Stop when no controller sends anything for `node_timeout_s`."""

    record: str = ""
    """Data that another controller needs to follow this run: opaque to the agent, printed by `runs`."""

    gloo: str = ""
    """Framework whose gloo the ranks use: "torch", "jax" or "". gloo listens at the address of the host's own name."""

    hostfile: str = ""
    """Nodes of the run as `address slots=ranks` lines, written to the file that PYLAUNCH_HOSTFILE names."""

    unread_program: list[str] = field(default_factory=list)
    """Script, or `-m` and a module, whose source the controller has not read: refuse one of another framework."""

    secret_arguments: list[str] = field(default_factory=list)
    """Values in the command lines that are masked in the output of the ranks, as those of secret variables."""

    choose_port: bool = False
    """Choose a free port, hold it like `hold_port`, and report it with `Ready`."""

    stop_grace_s: float = 0.0
    """The same when the agent gets SIGTERM, as from Slurm at the end of its job; not less than `grace_s`."""

    rank_thread: bool = True
    """Each Python rank has a thread that answers for its stacks and collectives. Without it, nothing
    of pylaunch runs in the process of a rank."""

    gpu_checks: list[str] = field(default_factory=list)
    """Codes of the reasons (gpu-…) for which the GPUs of the ranks refuse the run; [] does not look at them."""

    container: ContainerTask | None = None
    """None: ranks see the root directory of the node."""

    def __post_init__(self) -> None:
        if len({task.rank for task in self.ranks}) != len(self.ranks):
            raise WireError(f"run {self.run}: a rank appears twice on {self.host}")


RANK_ENTRY = "@rank"
LAUNCHER_FILES = "@launcher-files"
SHORT_DIRECTORY = "@short-directory"
"""Word of a rank's command line that the agent replaces with a directory in /tmp, which it removes when the run ends.
Paths of sockets have at most 107 bytes."""

TREE = "@tree"
"""First component of a working directory that is inside the code shipped for the run."""
