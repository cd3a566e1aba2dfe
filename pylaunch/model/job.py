"""Job as the user requested it."""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import UsageError
from pylaunch.model.text.argv import Argv, quoted
from pylaunch.protocol.node_task import MountTask

USUAL_PORT = 29500
"""Default rendezvous port of torchrun, and the first that a node tries."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Name of a variable."""

DAY = timedelta(days=1)
LEAST_HANG = timedelta(seconds=1)
"""Ranks are asked at half of this; a shorter time would ask healthy ones all the time."""

LEAST_NODE_TIMEOUT = timedelta(seconds=3)
"""The controller expects a heartbeat of each node every second."""


class Framework(Enum):
    """Framework that starts the ranks on a node."""

    TORCHRUN = "torchrun"
    DIRECT = "direct"
    """A Python script whose ranks pylaunch starts itself, in the environment that torchrun would give them."""

    JAX = "jax"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"
    RAY = "ray"
    """A Ray cluster for the time of a run: one rank on each node, whose Ray has all devices of the node."""

    COMMAND = "command"

    @property
    def has_nodes_as_ranks(self) -> bool:
        """Each node has one rank, which divides the devices itself."""
        return self is Framework.RAY


class OnHang(Enum):
    """Action when ranks do not advance."""

    OBSERVE = "observe"
    """Report it; the run continues."""

    STOP = "stop"
    """End the run as failed."""

    RESTART = "restart"
    """The same, then start again as after any failure."""


TREE = "@tree"
"""First part of a working directory that is inside the shipped code."""


@dataclass(frozen=True)
class Sync:
    """Working tree that is shipped with a run."""

    directory: str
    """Directory on the controller that it was read from."""

    tree: str
    """SHA-256 of its manifest: the same for the same files."""

    files: int
    size: int
    """Bytes of all files."""

    excludes: tuple[str, ...] = ()
    """Patterns of excluded files besides those of its ignore files; `!` before one ships what these exclude."""


@dataclass(frozen=True)
class Container:
    """Root directory of the ranks, in place of that of their node."""

    image: str
    """Name in the store of podman or docker on every node, or the path of a file there."""

    mounts: tuple[MountTask, ...] = ()

    @property
    def words(self) -> str:
        """The image with its mounts, as an option names them."""
        mounts = [f"{each.source}:{each.target}{':ro' * each.read_only}" for each in self.mounts]
        return " with ".join(filter(None, (self.image, ", ".join(mounts))))


EVERY = "all"
"""Name of all checks in `JobSpec.skipped_checks`."""

STOP_GRACE = timedelta(seconds=10)
FAILURE_GRACE = timedelta(seconds=1)
"""Grace period after a rank failed or a node was lost: the others wait for a peer that does not return."""


@dataclass(frozen=True)
class RolePart:
    """Place of a run in a job of several roles: one replica of a role."""

    job: str
    """Id of the job."""

    job_name: str
    role: str
    name: str
    """"trainer", or "rollout.0" for a role with several replicas."""

    stop_order: int = 0
    """Parts with a smaller number stop first: those that use others before those that they use."""


@dataclass(frozen=True)
class JobSpec:
    """Job as requested; nothing in it depends on the cluster.

    Making one raises UsageError for values that no start can have, in the words of the options that set them.
    """

    command: Argv
    """For command: a program and its arguments. For all others: a Python script or `-m MODULE`, and its arguments."""

    framework: Framework
    workdir: str
    """Absolute directory on every node in which the ranks start; with `sync`, TREE and what follows it."""

    is_unread: bool = False
    """The framework was chosen without the script's source: nodes refuse a script that asks for another."""

    ranks_per_node: int | None = None
    """None: one per device the inventory declares, or one where it declares none. For ray, the devices of
    the rank."""

    nodes: int | None = None
    """Number of hosts to take, in rank order; None takes all that are no spares."""

    spares: int = 0
    """Number of further hosts that are kept ready to replace a failed one."""

    min_nodes: int | None = None
    """Fewest hosts to continue with if hosts fail and no spare is left; None needs all."""

    max_restarts: int = 0

    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of further variables of every rank, whose values are sent to nodes only."""

    sync: Sync | None = None
    container: Container | None = None
    python: str | None = None
    rendezvous_port: int | None = None
    """None: the first node chooses one that is free."""

    interface: str | None = None
    """Network interface for rank traffic on every node; None is the inventory's, else each node chooses by route."""

    grace: timedelta | None = None
    """Between SIGTERM and SIGKILL; None is STOP_GRACE when a person stops the run, FAILURE_GRACE after a failure."""

    node_timeout: timedelta = timedelta(seconds=10)
    """Time without a heartbeat after which a node is lost."""

    hang_after: timedelta | None = timedelta(seconds=30)
    """Time without progress after which ranks are examined for a hang; None is never."""

    on_hang: OnHang = OnHang.OBSERVE

    rank_thread: bool = True
    """Each Python rank has a thread that answers for its stacks and collectives."""

    ends_with_controller: bool = False
    """Stop if no controller has been heard for `node_timeout`."""

    skipped_checks: tuple[str, ...] = ()
    """Ids and subjects of the checks that a start omits; EVERY is all of them."""

    start_timeout: timedelta = timedelta(seconds=60)
    """Timeout for every node to become ready."""

    part: RolePart | None = None
    """Place of the run in a job of several roles; None for a run of its own."""

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("nothing to run", hint="pylaunch start -- train.py")
        if not self.workdir.startswith((TREE, "/")):
            hint = f'--workdir "$PWD"/{quoted((self.workdir,))}'
            raise UsageError(f"--workdir {self.workdir}: expected an absolute path", hint=hint)
        for name in (*self.env, *self.secrets):
            if not VARIABLE.fullmatch(name):
                raise UsageError(f"--env {name}: expected the name of a variable", hint="--env NCCL_DEBUG=WARN")
        _check("--nproc-per-node", self.ranks_per_node, 1)
        _check("--nodes", self.nodes, 1)
        _check("--spares", self.spares, 0)
        _check("--min-nodes", self.min_nodes, 1)
        _check("--max-restarts", self.max_restarts, 0)
        _check("--port", self.rendezvous_port, 1, 65535)
        _check("--grace", self.grace, timedelta(0), DAY)
        _check("--start-timeout", self.start_timeout, timedelta(0), DAY)
        _check("--node-timeout", self.node_timeout, LEAST_NODE_TIMEOUT, timedelta(hours=1))
        _check("--hang-after", self.hang_after, LEAST_HANG, DAY)
        if self.on_hang is not OnHang.OBSERVE and self.hang_after is None:
            option = f"--on-hang {self.on_hang.value}"
            raise UsageError(f"{option} has no effect with --hang-after off", hint="--hang-after 30")
        if not self.max_restarts:
            self._refuse_restarts()

    def _refuse_restarts(self) -> None:
        """Raise UsageError for an option that says what a restart may do, where none is allowed."""
        options = {
            "--on-hang restart": self.on_hang is OnHang.RESTART,
            "--spares": self.spares,
            "--min-nodes": self.min_nodes is not None,
        }
        if useless := [option for option, is_given in options.items() if is_given]:
            raise UsageError(f"{useless[0]} has no effect without --max-restarts", hint="--max-restarts 3")

    @property
    def may_have_attempts(self) -> bool:
        """The run may have more than one attempt."""
        return self.max_restarts > 0

    @property
    def entry(self) -> Argv:
        """Arguments of `command` that name the program: a script, or `-m` and a module."""
        return self.command[:2] if self.command[:1] == ("-m",) else self.command[:1]

    @property
    def script(self) -> str | None:
        """Script that ranks run; None for a module."""
        return None if self.command[:1] == ("-m",) else self.command[0]

    @property
    def stop_grace(self) -> timedelta:
        """Grace period if a person stops the run."""
        return STOP_GRACE if self.grace is None else self.grace

    @property
    def failure_grace(self) -> timedelta:
        """Grace period if the run stops itself."""
        return FAILURE_GRACE if self.grace is None else self.grace


def _check(option: str, value: float | timedelta | None, least: float | timedelta, most: object = None) -> None:
    """Raise UsageError for a value of `option` out of its range; None is in any."""
    if value is None or (least <= value and (most is None or value <= most)):  # type: ignore[operator]
        return
    bounds = f"{_shown(least)} or more" if most is None else f"{_shown(least)} … {_shown(most)}"
    unit = " seconds" if isinstance(value, timedelta) else ""
    raise UsageError(f"{option} {_shown(value)}: expected {bounds}{unit}")


def _shown(value: object) -> str:
    return f"{value.total_seconds():g}" if isinstance(value, timedelta) else str(value)
