"""What the user asked to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

from pylaunch.model.argv import Argv

USUAL_PORT = 29500
"""The rendezvous port that everybody knows: torchrun's default, and the first that a node chooses."""


class Framework(Enum):
    """Who starts the ranks on a node."""

    TORCHRUN = "torchrun"
    DIRECT = "direct"
    """A Python script whose ranks pylaunch starts itself, in the environment that torchrun would give them."""

    JAX = "jax"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"
    COMMAND = "command"


class RankOrder(Enum):
    """In which order hosts get their ranks."""

    INVENTORY = "inventory"
    TOPOLOGY = "topology"
    """Hosts that stand together in the network get ranks that follow each other."""


TREE = "@tree"
"""The first part of a working directory that lies in the code that travels with the run."""


@dataclass(frozen=True)
class Sync:
    """The working tree that travels with a run."""

    directory: str
    """Where it was read on the controller."""

    tree: str
    """SHA-256 of its manifest: the same for the same files."""

    files: int
    size: int
    """Bytes of all files."""

    excludes: tuple[str, ...] = ()
    """What was left out besides what its ignore files say."""

    includes: tuple[str, ...] = ()
    """What was shipped although its ignore files leave it out."""


STOP_GRACE = timedelta(seconds=10)
FAILURE_GRACE = timedelta(seconds=1)
"""Once a rank has failed or a node is lost: the others wait for a peer that will not come back."""


@dataclass(frozen=True)
class JobSpec:
    """A job as asked for; nothing in it depends on the cluster."""

    command: Argv
    """For command: a program and its arguments. For all others: a Python script or `-m MODULE`, and its arguments."""

    framework: Framework
    workdir: str
    """Absolute directory on every node in which the ranks start; with `sync`, TREE and what follows it."""

    is_unread: bool = False
    """The framework was chosen without the script's source: nodes refuse a script that asks for another."""

    ranks_per_node: int | None = None
    """None: one per device the inventory declares, or one where it declares none."""

    rank_order: RankOrder = RankOrder.INVENTORY

    nodes: int | None = None
    """Take the first so many hosts in rank order; None takes all that are no spares."""

    spares: int = 0
    """So many hosts after those are kept ready to replace one that fails."""

    min_nodes: int | None = None
    """Go on with as few as these when hosts fail and no spare is left; None needs them all."""

    max_restarts: int = 0

    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of further variables of every rank, whose values are told to nodes alone."""

    sync: Sync | None = None
    python: str | None = None
    rendezvous_port: int | None = None
    """None: the first node chooses one that is free."""

    interface: str | None = None
    """Network interface for rank traffic on every node; None is the inventory's, else each node chooses by route."""

    log_limit: int = 1 << 30
    """Bytes that each log file may take on its node before its middle goes; 0 is no limit."""

    grace: timedelta | None = None
    """Between SIGTERM and SIGKILL; None is STOP_GRACE when a person stops the run, FAILURE_GRACE after a failure."""

    node_timeout: timedelta = timedelta(seconds=10)
    """After how long without a word a node counts as lost."""

    ends_with_controller: bool = False
    """Stop when no controller has been heard for `node_timeout`."""

    start_timeout: timedelta = timedelta(seconds=60)
    """How long every node may take to become ready."""

    @property
    def entry(self) -> Argv:
        """The words of `command` that name the program: a script, or `-m` and a module."""
        return self.command[:2] if self.command[:1] == ("-m",) else self.command[:1]

    @property
    def script(self) -> str | None:
        """The script that ranks run; None for a module."""
        return None if self.command[:1] == ("-m",) else self.command[0]

    @property
    def stop_grace(self) -> timedelta:
        """The grace when a person stops the run."""
        return STOP_GRACE if self.grace is None else self.grace

    @property
    def failure_grace(self) -> timedelta:
        """The grace when the run stops itself."""
        return FAILURE_GRACE if self.grace is None else self.grace
