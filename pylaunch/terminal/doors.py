"""The doors through which a feature joins the command line: a verb, an observer of runs, a section of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pylaunch.base.dataclass import dataclass, field

if TYPE_CHECKING:
    from pylaunch.errors import PylaunchError
    from pylaunch.model.outcome import Outcome
    from pylaunch.workflows.attach import AttachEvent
    from pylaunch.workflows.start_events import StartEvent


class VerbGroup(Enum):
    """Groups of verbs in `pylaunch --help`, in their order."""

    PREPARE = "Prepare"
    RUN = "Run"
    WATCH = "Watch"
    DIAGNOSE = "Diagnose"
    MAINTAIN = "Maintain"


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


@dataclass
class RunEnding:
    """The end of a run that this process followed."""

    run: str
    """Id of its first attempt; `attach` has the attempt that it followed."""

    outcome: Outcome | None
    """None where an error ended the start."""

    error: PylaunchError | None = None
    files: list[Path] = field(default_factory=list)
    """Files about the run that observers have written so far."""


class RunObserver:
    """Observes a run that this process follows. Observers are called in the order of `features.FEATURES`."""

    def on_event(self, event: StartEvent | AttachEvent) -> None:
        """Take an event of the run, on its event loop: this must not block.

        `start --detach` forks before the ranks run, so no thread may begin before `RanksReleased`.
        """

    def at_end(self, ending: RunEnding) -> None:
        """Act when the run has ended. Raises nothing: the run keeps its exit code."""


@dataclass(frozen=True)
class ObserverOption:
    """An option of verbs that follow a run, by which a feature observes the run."""

    name: str
    """Parameter of click: "report" for --report."""

    module: str
    """Module whose `observer(value)` returns a RunObserver, or raises UsageError for the value."""

    attributes: Mapping[str, Any]
    """Those of click.option."""

    verbs: tuple[str, ...] = ("start",)


@dataclass(frozen=True)
class StartFile:
    """A kind of file that a feature starts: `pylaunch start NAME.suffix`."""

    suffix: str
    module: str
    """Module whose `started(flags, inventory, limit, judge)` starts it and returns the exit code."""


@dataclass(frozen=True)
class MeasuredSection:
    """Section of a report about a measurement; its texts are masked and bounded."""

    about: str
    verdicts: Sequence[str]
    plots: Mapping[str, str]
    """Heading → SVG, safe to insert as it is."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Measured = Callable[[Callable[[str], str]], MeasuredSection]
"""Return the section; the argument masks secrets."""
