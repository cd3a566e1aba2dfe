"""Attach to a run: follow it from the beginning of its logs to its end."""

from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.connect.agent_link import RunUnknownError
from pylaunch.runs.connect.fleet import Fleet, on_fleet, raise_if_none
from pylaunch.runs.events import Attached, AttemptEnded, LogsCaughtUp, StartEvent, notice, recording
from pylaunch.runs.follow.run_follower import LAST_S, RunFollower, rank_streams
from pylaunch.runs.proof import finish
from pylaunch.store import runs
from pylaunch.transport import steady_clock
from pylaunch.transport.interrupts import Interrupter, InterruptSource


async def attach_all(fleet: Fleet, record: RunRecord, follower: RunFollower) -> dict[str, str]:
    """Connect to all nodes; return the reasons of those that cannot be reached, by host. `follower` is notified.

    Where no host knows a run that ran, all have a reason: they may be other machines.
    """
    names = [node.host.name for node in record.plan.nodes]
    failures = await fleet.connect(names, "attach")
    strangers = [name for name, error in failures.items() if isinstance(error, RunUnknownError)]
    reasons = {}
    for name, error in failures.items():
        if name in strangers and (record.began is None or strangers != names):
            follower.nothing_there(name)
        else:
            reasons[name] = str(error)
            follower.given_up(name, reasons[name], host_answers=error.host_answers)
    return reasons


@dataclass(frozen=True)
class AttachOptions:
    """How a run is followed."""

    progress_every_s: float = 0.0
    relays_output: bool = True
    stops_on_interrupt: bool = True
    """False: an interrupt raises KeyboardInterrupt and leaves the run alone."""


TO_THE_END = AttachOptions()


def attach(
    record: RunRecord,
    emit: Callable[[StartEvent], None],
    interrupts: InterruptSource | None = None,
    options: AttachOptions = TO_THE_END,
) -> Outcome:
    """Follow `record`'s run to its end. The first interrupt stops the run, the second one kills it, unless
    `options` leave the run alone.

    Leads the run unless another process on this machine does. Raises ClusterNotReadyError when no node can be reached.
    """
    outcome = record.outcome
    if outcome is None:
        recorder = runs.Recorder(record.plan.run, lambda text: emit(notice(text)))
        leads = recorder.take_charge()
        emit(Attached(record, leads))
        emit_run = recording(recorder if leads else None, emit)
        source = Interrupter() if interrupts is None else interrupts
        streams = rank_streams(record.plan) if options.relays_output else []

        async def follow(fleet: Fleet) -> Outcome:
            follower = RunFollower(
                record.plan, fleet, emit_run, streams=streams, on_caught_up=lambda: emit(LogsCaughtUp())
            )
            follower.relay.progress_every_s = options.progress_every_s
            follower.leads = leads
            follower.stops_on_interrupt = options.stops_on_interrupt
            raise_if_none(record, await fleet.unless_interrupted(attach_all(fleet, record, follower)))
            emit_run(Event(steady_clock.now(), EventKind.ATTACHED))
            return await follower.follow()

        try:
            outcome = on_fleet(record.plan, record.agent, follow, source=source, last_s=LAST_S)
            if leads:
                outcome = finish(record.plan, outcome, recorder, emit)
        finally:
            recorder.give_up_charge()
        record = runs.read(record.plan.run)
    emit(AttemptEnded(record.plan, outcome, record.ran_s(outcome)))
    return outcome
