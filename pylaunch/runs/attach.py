"""Attach to a run: follow it, and the attempts after it, to the end. An interrupt leaves it alone."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from pylaunch.base.dataclass import dataclass
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import base_of
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.connect.agent_link import AgentAbsentError, RunUnknownError
from pylaunch.runs.connect.fleet import Fleet, on_fleet, raise_if_none
from pylaunch.runs.events import Attached, AttemptEnded, LogsCaughtUp, StartEvent, clock_now, notice, recording
from pylaunch.runs.follow.run_follower import LAST_S, RunFollower, rank_streams
from pylaunch.runs.proof import finish
from pylaunch.store import runs
from pylaunch.transport.interrupts import Interrupter, InterruptSource

T = TypeVar("T")

LOOK_S = 0.5
AGAIN_S = 2.0
"""Between two questions to nodes that do not know the run."""

RELEASED = ("running", "stopping")
"""Phases of a node from the release to the end of its ranks."""


async def attach_all(fleet: Fleet, record: RunRecord, follower: RunFollower) -> dict[str, str]:
    """Connect to all nodes; return the reasons of those that cannot be reached, by host. `follower` is notified.

    A follower that does not lead asks nodes that do not know the run again, as long as it may still be starting. Where
    no host knows a run that ran, all have a reason: they may be other machines.
    """
    names = record.plan.cluster.names
    failures = await fleet.connect(names, "attach")
    while not follower.leads and (
        unknown := [name for name, why in failures.items() if isinstance(why, RunUnknownError | AgentAbsentError)]
    ):
        if is_settled(record) or any(link.hello.phase in RELEASED for link in fleet.links.values()):
            break  # All nodes knew the run before its release: these have lost it.
        await asyncio.sleep(AGAIN_S)
        known = {name: why for name, why in failures.items() if name not in unknown}
        failures = known | await fleet.connect(unknown, "attach")
    strangers = [name for name, error in failures.items() if isinstance(error, RunUnknownError)]
    reasons = {}
    for name, error in failures.items():
        if name in strangers and (record.began is None or len(strangers) < len(names)):
            follower.nothing_there(name)
        else:
            reasons[name] = str(error)
            follower.not_reached(name, reasons[name], host_answers=error.host_answers)
    return reasons


@dataclass(frozen=True)
class AttachOptions:
    """How a run is followed."""

    progress_every_s: float = 0.0
    relays_output: bool = True
    tail: int | None = None
    """Number of last lines of each stream to begin with; None begins with the first line."""

    may_lead: bool = True
    """Lead the run if no process on this machine does; otherwise only watch it."""

    look: Callable[[], None] = lambda: None
    """Called twice a second while the run is followed."""


TO_THE_END = AttachOptions()


def attach(
    record: RunRecord,
    emit: Callable[[StartEvent], None],
    interrupts: InterruptSource | None = None,
    options: AttachOptions = TO_THE_END,
) -> Outcome:
    """Follow `record`'s run, and the attempts that its controller starts after it; return how the last one ended.

    Leads an attempt unless another process on this machine does, or may start it again: its controller then decides,
    and records the outcome. Raises KeyboardInterrupt at an interrupt, and ClusterNotReadyError when no node can be
    reached.
    """
    source = Interrupter() if interrupts is None else interrupts
    while True:
        run, outcome = record.plan.run, record.outcome
        is_over = outcome is not None and is_settled(record)
        if outcome is None or not is_over:
            outcome = _followed(record, emit, source, options)
        emit(AttemptEnded(record.plan, outcome, runs.read(run).ran_s(outcome)))
        last = runs.find(base_of(run))
        if is_over or last == run:
            return outcome
        record = runs.read(last)


def _followed(
    record: RunRecord, emit: Callable[[StartEvent], None], source: InterruptSource, options: AttachOptions
) -> Outcome:
    """Follow one attempt; return its outcome as it is recorded, or else as its nodes reported it."""
    plan, run = record.plan, record.plan.run
    recorder = runs.Recorder(run, lambda text: emit(notice(text)))
    # The controller of the first attempt leads the next ones, too, also before it has taken charge of their records.
    is_led = base_of(run) != run and runs.controller(base_of(run)) is not None
    leads = options.may_lead and not is_led and record.outcome is None and recorder.take_charge()
    emit(Attached(record, leads))
    emit_run = recording(recorder if leads else None, emit)
    streams = rank_streams(plan) if options.relays_output else []

    async def follow(fleet: Fleet) -> Outcome:
        follower = RunFollower(plan, fleet, emit_run, streams=streams, leads=leads)
        follower.relay.on_caught_up = lambda: emit(LogsCaughtUp())
        follower.relay.progress_every_s, follower.relay.tail = options.progress_every_s, options.tail
        raise_if_none(record, await attach_all(fleet, record, follower))
        if leads or any(link.hello.phase in RELEASED for link in fleet.links.values()):
            emit_run(Event(clock_now(), EventKind.ATTACHED))
        outcome = await follower.follow()
        while not leads and not is_settled(record):
            await asyncio.sleep(LOOK_S)
        return outcome

    try:
        outcome = on_fleet(
            plan,
            record.agent,
            lambda fleet: fleet.unless_interrupted(_watched(follow(fleet), options.look)),
            source=source,
            last_s=LAST_S,
        )
        return finish(plan, outcome, recorder, emit) if leads else runs.read(run).outcome or outcome
    finally:
        recorder.give_up_charge()


async def _watched(work: Coroutine[None, None, T], look: Callable[[], None]) -> T:
    """Return the result of `work`, and `look` meanwhile. Raises what either raises."""
    working = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({working}, timeout=LOOK_S))[0]:
            look()
        return working.result()
    finally:
        working.cancel()
        await asyncio.wait({working})


def is_settled(record: RunRecord) -> bool:
    """Report whether no controller on this machine will start this run, finish its record, or start it again."""
    run, base = record.plan.run, base_of(record.plan.run)
    if runs.find(base) != run:
        return True
    if runs.controller(run) is None and runs.controller(base) is None:
        return True
    return record.plan.job.max_restarts == 0 and runs.read(run).outcome is not None
