"""Watch live runs without controlling them: a follower that does not lead. Nothing is decided, stopped or recorded."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol

from pylaunch.errors import ClusterNotReadyError
from pylaunch.model.plan import RunPlan, base_of
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs.connect.agent_link import AgentAbsentError, LinkError, RunUnknownError
from pylaunch.runs.connect.bounds import ConnectionEnded
from pylaunch.runs.connect.fleet import Fleet, on_fleet, raise_if_none
from pylaunch.runs.events import ProgressReported, RunEvent
from pylaunch.runs.follow.run_follower import RunFollower, rank_streams
from pylaunch.store import runs
from pylaunch.transport import steady_clock
from pylaunch.transport.interrupts import Interrupter, InterruptSource

LOOK_S = 0.5
TAIL = 5
"""Last lines of each stream to begin with: the last one, and probably one with a step."""

GLIMPSE_S = 3.0
"""Time limit for the progress and the last lines of a live run: `status` shows what has arrived."""

SILENT_READINGS = 4
"""Reports of progress in a row that must be missing before a node counts as silent."""

AGAIN_S = 2.0
"""Between two questions to nodes that do not know the run."""

RELEASED = ("running", "stopping")
"""Phases of a node from the release to the end of its ranks."""


Failure = LinkError | AgentAbsentError


class Onlooker(Protocol):
    """Receives the events of a run, and shows a snapshot at intervals."""

    progress_every_s: float
    """Interval in seconds at which nodes report the progress of their ranks."""

    def show(self, event: RunEvent) -> None:
        """Receive `event`."""

    def look(self) -> None:
        """Show the snapshot; called twice a second."""


def watch(
    record: RunRecord,
    onlooker: Onlooker,
    is_settled: Callable[[], bool],
    source: InterruptSource,
    hosts: Collection[str] | None = None,
) -> bool:
    """Pass the reports of the nodes (of `hosts`) to `onlooker` until the run is over. Returns False when it was
    interrupted.

    While the run is not `is_settled`, nodes that do not know it are asked again: it may still be starting. Raises
    ClusterNotReadyError when no node can be reached at the beginning.
    """
    names = record.plan.cluster.names if hosts is None else tuple(hosts)

    async def work(fleet: Fleet) -> None:
        failures = await fleet.connect(names, "attach")
        raise_if_none(record, {name: str(why) for name, why in failures.items() if not _is_unknown(why)}, of=names)
        reporting = set[str]()

        def show(event: RunEvent) -> None:
            if isinstance(event, ProgressReported):
                reporting.add(event.host)
            onlooker.show(event)

        follower = RunFollower(record.plan, fleet, show, streams=rank_streams(record.plan))
        follower.relay.progress_every_s, follower.relay.tail = onlooker.progress_every_s, TAIL
        watching = _until_over(fleet, follower, onlooker, is_settled, failures)
        tasks = [asyncio.ensure_future(each) for each in (_look(onlooker, fleet, reporting), watching)]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()  # Looking has no end: it raises, for example where the reader of the output is gone.
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    try:
        on_fleet(record.plan, record.agent, lambda fleet: fleet.unless_interrupted(work(fleet)), source=source)
    except KeyboardInterrupt:
        return False
    return True


async def _look(onlooker: Onlooker, fleet: Fleet, reporting: set[str]) -> None:
    """Let `onlooker` look; end the connections of hosts that were `reporting` and are silent."""
    silent_s = SILENT_READINGS * onlooker.progress_every_s
    while True:
        await asyncio.sleep(LOOK_S)
        for host in reporting & fleet.links.keys():
            if time.monotonic() - fleet.links[host].heard_at > silent_s:
                reporting.discard(host)
                fleet.drop(host)
                fleet.receive(host, ConnectionEnded(f"no heartbeat for {silent_s:.0f} s"))
        onlooker.look()


async def _until_over(
    fleet: Fleet,
    follower: RunFollower,
    onlooker: Onlooker,
    is_settled: Callable[[], bool],
    failures: dict[str, Failure],
) -> None:
    while (unknown := [name for name, why in failures.items() if _is_unknown(why)]) and not is_settled():
        if any(link.hello.phase in RELEASED for link in fleet.links.values()):
            break  # All nodes knew the run before its release: these have lost it.
        await asyncio.sleep(AGAIN_S)
        for name in unknown:
            del failures[name]
        failures |= await fleet.connect(unknown, "attach")
    unreached = []
    for name, why in failures.items():
        if _is_unknown(why):
            follower.nothing_there(name)
        else:
            unreached.append(name)
            onlooker.show(Event(steady_clock.now(), EventKind.CONTACT_LOST, name, text=str(why)))
    for name, link in fleet.links.items():
        if link.hello.phase in RELEASED:
            onlooker.show(Event(steady_clock.now(), EventKind.ATTACHED, name))
    await follower.watch(unreached)
    while not is_settled():
        await asyncio.sleep(LOOK_S)


def _is_unknown(error: Failure) -> bool:
    return isinstance(error, RunUnknownError | AgentAbsentError)


def watch_run(
    record: RunRecord, onlooker_of: Callable[[RunPlan], Onlooker], interrupts: InterruptSource | None = None
) -> RunRecord | None:
    """Watch a run and the attempts after it until the last one is over. Nothing is stopped or recorded.

    `onlooker_of` makes the onlooker of each attempt. Returns the record of the last attempt, or None when interrupted.
    """
    source = Interrupter() if interrupts is None else interrupts
    if record.outcome is not None and is_settled(record):
        return record
    while True:
        if not watch(record, onlooker_of(record.plan), partial(is_settled, record), source):
            return None
        watched, record = record, runs.read(runs.find(base_of(record.plan.run)))
        if record.plan.run == watched.plan.run:
            return record


def glimpse(record: RunRecord, hosts: Collection[str], onlooker: Onlooker, interrupter: Interrupter) -> None:
    """Pass the reports of `hosts`, which answer, to `onlooker` until it interrupts, GLIMPSE_S at most.

    Another host may need longer to refuse a connection, and nothing is passed on before.
    """
    timer = threading.Timer(GLIMPSE_S, interrupter.interrupt, ("enough",))
    timer.start()
    try:
        watch(record, onlooker, lambda: True, interrupter, hosts)
    except ClusterNotReadyError:
        return  # `report` has printed the reasons of the nodes.
    finally:
        timer.cancel()


def is_settled(record: RunRecord) -> bool:
    """Report whether no controller on this machine will start this run, finish its record, or start it again."""
    run, base = record.plan.run, base_of(record.plan.run)
    if runs.find(base) != run:
        return True
    if runs.controller(run) is None and runs.controller(base) is None:
        return True
    return record.plan.job.max_restarts == 0 and runs.read(run).outcome is not None
