"""A Slurm job: what is requested, and its state in the queue."""

import re
from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.text.argv import Argv

# fmt: off
OVER = frozenset((
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
))
# fmt: on
GRANTED = "RUNNING"
QUEUED = "PENDING"
ENDING = "COMPLETING"
"""State of a job until Slurm has ended its processes on all nodes; the state in which it has ended follows."""

UNKNOWN = "UNKNOWN"
"""State of a job that squeue does not list any more."""


def end_of_job(job: str) -> str:
    """Return the reason why no node of `job` can be reached any more."""
    return f"Slurm job {job} has ended"


def cancellation_of_job(job: str) -> str:
    """Return the reason of a run whose job a person cancelled."""
    return f"Slurm job {job} was cancelled (scancel)"


def ended_job(reason: str) -> str:
    """Return the job of a `reason` of `end_of_job`; "" for another reason."""
    found = re.fullmatch(r"Slurm job (\d+) has ended", reason)
    return "" if found is None else found[1]


@dataclass(frozen=True)
class JobRequest:
    """A Slurm job to submit, with the values of the options of sbatch that pylaunch has, too."""

    nodes: int
    name: str = "pylaunch"
    options: Argv = ()
    """Options of sbatch: `--partition=gpu`."""


@dataclass(frozen=True)
class JobState:
    """A job as squeue lists it."""

    state: str
    reason: str = ""
    starts: str = ""
    """Estimated start, as squeue prints it; "" without an estimate."""

    nodes: str = ""
    """Nodes, as a list of Slurm; "" before the grant."""

    @property
    def is_granted(self) -> bool:
        """The nodes are there."""
        return self.state == GRANTED

    @property
    def is_over(self) -> bool:
        """The job has ended, or Slurm has forgotten it."""
        return self.state in OVER or self.state == UNKNOWN


@dataclass(frozen=True)
class JobDetails:
    """A job as scontrol describes it, with its GPUs."""

    state: JobState
    gpus: Mapping[str, int] = field(default_factory=dict)
    """Number of GPUs of the job, by node; nodes without any are missing."""

    shares_gpus: bool = False
    """The job was requested with GPUs in total or for each task: nodes may have different numbers of them."""

    def gpu_requests(self, nodes: Iterable[str]) -> dict[str, int | None]:
        """Return the number of GPUs that a step on each of `nodes` must request; empty for a job without GPUs.

        None: a step gets those of the job on its own.
        """
        if not self.gpus:
            return {}
        return {name: self.gpus.get(name, 0) if self.shares_gpus else None for name in nodes}


@dataclass(frozen=True)
class SlurmNode:
    """A node as scontrol describes it."""

    name: str
    address: str
    answers: bool = True
    """slurmctld reaches the node."""

    has_gpus: bool = False
    """Slurm manages GPUs of the node, whoever has them."""


@dataclass(frozen=True)
class SlurmJob:
    """A job whose nodes are there."""

    id: str
    nodes: tuple[SlurmNode, ...]
    devices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Indexes of the accelerators of the job, by node: empty where the job has none; a node whose devices have no
    indexes (MIG) is missing."""

    requests: dict[str, int] = field(default_factory=dict)
    """Numbers of GPUs that a step on a node must request, by node; empty where each step gets those of the job."""
