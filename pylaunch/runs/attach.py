"""Attach to a run: follow it from the beginning of its logs to its end."""

from __future__ import annotations

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import RunRecord
from pylaunch.runs.connect.interruptible import Interrupter, InterruptSource
from pylaunch.runs.existing.attach import FollowOptions, follow
from pylaunch.runs.follow.run_events import Notice, RunEvent
from pylaunch.runs.prove import finish
from pylaunch.runs.recording import recording
from pylaunch.store import runs
from pylaunch.transport.slurm import commands


@dataclass(frozen=True)
class Attached:
    """The run is live and is followed from now on."""

    record: RunRecord
    leads: bool
    """This process is the controller of the run now, and keeps its record."""


@dataclass(frozen=True)
class LogsCaughtUp:
    """All output that was written before has been emitted."""


@dataclass(frozen=True)
class RunOver:
    """The run is over. The last event."""

    record: RunRecord
    outcome: Outcome
    ran_s: float | None
    """From the release to the end of the last rank; None where no release is recorded."""


AttachEvent = Attached | LogsCaughtUp | RunOver | RunEvent


def attach(
    record: RunRecord,
    emit: Callable[[AttachEvent], None],
    interrupts: InterruptSource | None = None,
    *,
    usage_every_s: float = 0.0,
    relays_output: bool = True,
) -> Outcome:
    """Follow `record`'s run to its end. The first interrupt stops the run, the second one kills it.

    Leads the run unless another process on this machine does. Raises ClusterNotReadyError when no node can be reached.
    """
    outcome = record.outcome
    if outcome is None:
        recorder = runs.Recorder(record.plan.run, lambda text: emit(Notice(text)))
        leads = recorder.take_charge()
        emit(Attached(record, leads))
        options = FollowOptions(relays_output, leads, commands.time_left, usage_every_s)
        emit_run = recording(recorder if leads else None, emit)
        source = Interrupter() if interrupts is None else interrupts
        try:
            outcome = follow(record, emit_run, lambda: emit(LogsCaughtUp()), source, options)
            if leads:
                outcome = finish(record.plan, outcome, recorder, emit)
        finally:
            recorder.give_up_charge()
        record = runs.read(record.plan.run)
    emit(RunOver(record, outcome, record.ran_s(outcome)))
    return outcome
