"""The doors through which a feature joins the command line: verbs, observers of runs, nodes of a start."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pylaunch.base.dataclass import dataclass

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pylaunch.errors import PylaunchError
    from pylaunch.model.cluster import Cluster
    from pylaunch.model.job import JobSpec
    from pylaunch.model.outcome import Outcome
    from pylaunch.runs.events import StartEvent
    from pylaunch.terminal.options import Option


class VerbGroup(Enum):
    """Groups of verbs in `pylaunch --help`, in their order."""

    PREPARE = "Prepare"
    RUN = "Run"
    WATCH = "Watch"
    DIAGNOSE = "Diagnose"
    MAINTAIN = "Maintain"


class Names(Enum):
    """What a verb finds by the inventory that its command line names: hints name it again."""

    NOTHING = "nothing"
    HOSTS = "hosts"
    RUN = "run"
    """The record of a run has its hosts; an inventory has their addresses of today, and finds runs of others."""


@dataclass(frozen=True)
class Verb:
    """A verb whose module is imported when the verb is used."""

    module: str
    """Module that names its command `command`."""

    help: str
    """Summary of the verb in one line of `pylaunch --help` with 80 columns."""

    after: str = ""
    """Verb that precedes this one in the list of verbs; "" for the next place."""

    group: VerbGroup | None = None
    """Group in the list of verbs; None for that of `after`."""

    names: Names = Names.NOTHING
    subcommands: tuple[str, ...] = ()
    """Of a group, those that name hosts."""

    is_first: bool = False
    """The verb precedes all others of its group."""

    example: str = ""
    """Line of the examples of `pylaunch --help`: a command and its purpose, in 76 columns."""


@dataclass(frozen=True)
class RunEnding:
    """The end of a run that this process followed."""

    run: str
    """Id of its first attempt; `attach` has the attempt that it followed. For a job of several roles, the job's id."""

    outcome: Outcome | None
    """None where an error ended the start."""

    error: PylaunchError | None = None


class RunObserver:
    """Observes a run that this process follows."""

    def on_event(self, event: StartEvent) -> None:
        """Take an event of the run, on its event loop: this must not block.

        `start --detach` forks before the ranks run, so no thread may begin before `RanksReleased`.
        """

    def at_end(self, ending: RunEnding) -> None:
        """Act when the run has ended. Raises nothing: the run keeps its exit code."""


@dataclass(frozen=True)
class ObserverOption:
    """An option of verbs that follow a run, by which a feature observes the run."""

    option: Option
    module: str
    """Module whose `observer(value)` returns a RunObserver, or raises UsageError for the value."""


@dataclass(frozen=True)
class StartFile:
    """A kind of file that a feature starts: `pylaunch start NAME.suffix`."""

    suffix: str
    module: str
    """Module whose `started(flags, inventory, limit, observers)` starts it and returns the exit code."""


@dataclass(frozen=True)
class NodesWanted:
    """Nodes that the flags of a start request."""

    inventory: Path | None
    limit: str | None
    nodes: int | None
    spares: int
    dry_run: bool


@dataclass(frozen=True)
class StartNodes:
    """Nodes of a start."""

    cluster: Cluster
    submitted_job: str | None = None
    """Slurm job that was submitted for this start; the plan records it."""

    end: Callable[[bool], None] = lambda is_good: None
    """End nodes that are there for this start alone; the argument is the success of the run."""


class StartSource(Protocol):
    """Source of the nodes of a start in place of the inventory."""

    def nodes(self, wanted: NodesWanted, job: JobSpec) -> AbstractContextManager[StartNodes]:
        """Provide nodes for a block that plans `job`; an exception in it ends what was allocated."""
