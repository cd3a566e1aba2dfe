"""What one node must do in a run, as the controller sends it with `Prepare`."""

from __future__ import annotations

from dataclasses import dataclass, field

from pylaunch.agent.wire.fields import WireError


@dataclass(frozen=True)
class RankTask:
    """One rank of a node."""

    rank: int
    local_rank: int
    argv: list[str]
    env: dict[str, str]
    """Added to the node's environment for this rank alone."""


@dataclass(frozen=True)
class Need:
    """A path that must exist; a relative one starts at the working directory. `hint` is for when it does not."""

    path: str
    hint: str


@dataclass(frozen=True)
class NodeTask:
    """All that one node must do in a run."""

    run: str
    host: str
    node_rank: int
    workdir: str
    ranks: list[RankTask]
    env: dict[str, str]
    """The whole environment of the ranks and the launcher, less what the agent and the launcher add."""

    launcher: list[str]
    """Program that starts the ranks of this node (torchrun), or [] when the agent starts them itself.
    RANK_ENTRY in it becomes the command with which a launcher starts one rank through the agent, and LAUNCHER_FILES
    in a word becomes a directory of the run for files of the launcher itself, removed when the run ends."""

    hold_port: int | None
    """TCP port to take now and keep for the run's rendezvous; None on nodes that host none."""

    devices: list[int]
    """Accelerators this node leases to the run."""

    needs: list[Need]
    """What must exist before anything starts: interpreter, script."""

    grace_s: float
    """Between SIGTERM and SIGKILL when the node stops itself because a rank failed."""

    world_size: int
    python: str = ""
    """Interpreter of the ranks, whose environment is told with Ready; "" for ranks that need none."""

    env_file: str | None = None
    """A JSON file of this node, {"variables": {…}}: what stands below `env`. One that is not there says nothing."""

    log_limit: int = 0
    """Bytes that one log file may take on the disk: its middle goes when there are more; 0 is no limit."""

    machines: int = 1
    """How many machines the nodes of the run are."""

    peers: dict[str, str] = field(default_factory=dict)
    """Address of every node of the run by its host, in rank order, this one included."""

    node_timeout_s: float = 10.0
    """After how long without a word a node counts as lost."""

    ends_with_controller: bool = False
    """Stop when no controller has been heard for `node_timeout_s`."""

    record: str = ""
    """What a controller that never saw this run must know to follow it: opaque to the agent, told by `runs`."""

    gloo: str = ""
    """Whose gloo the ranks talk over: "torch", "jax" or "". It listens where the host's own name leads."""

    hostfile: str = ""
    """The nodes of the run as `address slots=ranks` lines, kept in a file that ranks are told of."""

    unread_program: list[str] = field(default_factory=list)
    """A script, or `-m` and a module, whose source the controller has not seen: refuse one of another framework."""

    choose_port: bool = False
    """Choose a free port, take and keep it as if it were `hold_port`, and say with Ready which one it is."""

    def __post_init__(self) -> None:
        if len({task.rank for task in self.ranks}) != len(self.ranks):
            raise WireError(f"run {self.run}: a rank appears twice on {self.host}")


RANK_ENTRY = "@rank"
LAUNCHER_FILES = "@launcher-files"
TREE = "@tree"
"""The first part of a working directory that lies in the code that was shipped for the run."""
