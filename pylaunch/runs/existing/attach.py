"""Attach to a live run and follow it to its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from pylaunch.base.dataclass import dataclass
from pylaunch.model.outcome import Outcome
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.connect.interruptible import InterruptSource, on_fleet
from pylaunch.runs.existing.reach import agent_of, attach_all, raise_if_none
from pylaunch.runs.follow.job_time import TimeLeft, beside, watch_job_time
from pylaunch.runs.follow.run_events import Emitter
from pylaunch.runs.follow.run_follower import LAST_S, RunFollower, rank_streams


@dataclass(frozen=True)
class FollowOptions:
    """Options of a follower that attaches to a run."""

    relays_output: bool
    """Pass on the output of ranks."""

    leads: bool
    """A hang may end the run, as its job says, and so may the end of the time of its Slurm job."""

    time_left: TimeLeft
    usage_every_s: float = 0.0
    """Interval in seconds at which nodes report their load; 0 is never."""


def follow(
    record: RunRecord,
    emit: Emitter,
    on_caught_up: Callable[[], None],
    source: InterruptSource,
    options: FollowOptions,
) -> Outcome:
    """Follow a live run to its end, from the beginning of its logs. An interrupt stops the run, as in start.

    Calls `on_caught_up` when all output that was written before has been emitted. Raises ClusterNotReadyError
    when none of its nodes can be reached.
    """

    async def work(fleet: Fleet) -> Outcome:
        streams = rank_streams(record.plan) if options.relays_output else []
        follower = RunFollower(record.plan, fleet, emit, streams=streams, on_caught_up=on_caught_up)
        follower.relay.usage_every_s = options.usage_every_s
        if not options.leads:
            follower.only_observe()
        raise_if_none(record, await fleet.unless_interrupted(attach_all(fleet, record, follower)))
        emit(Event(time.time(), EventKind.ATTACHED))
        if not options.leads:
            return await follower.follow()
        async with beside(watch_job_time(record.plan, options.time_left, fleet.post)):
            return await follower.follow()

    return on_fleet(record.plan, agent_of(record), work, source=source, last_s=LAST_S)
