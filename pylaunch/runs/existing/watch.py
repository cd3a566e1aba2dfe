"""Watch a live run without controlling it.

Nothing is decided and nothing is stopped. No Ping is sent: nodes that hear a controller rely on it to stop them when
another node is lost, and a watcher does not do that.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Protocol

from pylaunch import protocol
from pylaunch.model.run import Event, EventKind, RunRecord
from pylaunch.runs import steady_clock
from pylaunch.runs.connect.agent_link import AgentAbsentError, RunUnknownError
from pylaunch.runs.connect.confine import ForeignMessage, overstepped
from pylaunch.runs.connect.fleet import ConnectionEnded, Fleet, Interrupted
from pylaunch.runs.connect.interruptible import InterruptSource, on_fleet
from pylaunch.runs.existing.reach import raise_if_none
from pylaunch.runs.follow.run_events import LinesWritten, Notice, RunEvent, UsageReported, on_our_clock
from pylaunch.runs.follow.run_follower import rank_streams

LOOK_S = 0.5
TAIL = 5
"""Last lines of each stream to begin with: the last one, and probably one with a step."""

LAG = 1 << 16
"""Bytes of output that a node keeps for a watcher who is slower than its ranks."""

AGAIN_S = 2.0
"""Between two attempts to reach a node."""

SILENT_READINGS = 4
"""Load reports in a row that must be missing before a node counts as silent."""

HEARD, OVER, UNKNOWN = "heard", "over", "unknown"
DONE = frozenset({OVER, UNKNOWN})
"""Nodes that report that the run is over; and those that do not know it: not yet, or no longer."""


class Onlooker(Protocol):
    """Receives the events of a run, and shows a snapshot at intervals."""

    usage_every_s: float
    """Interval in seconds at which nodes report their load."""

    def show(self, event: RunEvent) -> None:
        """Receive `event`."""

    def look(self) -> None:
        """Show the snapshot; called twice a second."""


def watch(record: RunRecord, onlooker: Onlooker, is_settled: Callable[[], bool], source: InterruptSource) -> bool:
    """Pass the reports of the nodes to `onlooker` until the run is over. Returns False when it was interrupted.

    While the run is not `is_settled`, nodes that do not know it are asked again: it may still be starting. Raises
    ClusterNotReadyError when no node can be reached at the beginning.
    """

    async def work(fleet: Fleet) -> bool:
        return await _Watch(record, fleet, onlooker).until_over(is_settled)

    return on_fleet(record.plan, record.agent, work, source=source)


def is_over(states: Collection[str | float], now: float, patience_s: float) -> bool:
    """Return True when every node that answers is done and the others were silent for `patience_s`.

    At least one node must answer. `states` is as in `_Watch`.
    """
    return not DONE.isdisjoint(states) and all(
        now - state >= patience_s if isinstance(state, float) else state in DONE for state in states
    )


class _Watch:
    def __init__(self, record: RunRecord, fleet: Fleet, onlooker: Onlooker) -> None:
        self._record = record
        self._plan = record.plan
        self._fleet = fleet
        self._onlooker = onlooker
        self._states: dict[str, str | float] = {node.host.name: "" for node in record.plan.nodes}
        """"" before the first answer, HEARD, one of DONE, or the time since when a node is out of reach."""

        self._reasons: dict[str, str] = {}
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._reporting: set[str] = set()
        """Hosts that have reported their load, and so will again."""

        self._has_seen_any = False

    async def until_over(self, is_settled: Callable[[], bool]) -> bool:
        patience_s = self._plan.job.node_timeout.total_seconds()
        for host in self._states:
            self._call(host)
        try:
            while True:
                until = time.monotonic() + LOOK_S
                while (left := until - time.monotonic()) > 0:
                    try:
                        async with asyncio.timeout(left):
                            host, message = await self._fleet.inbox.hear()
                    except TimeoutError:
                        break
                    if isinstance(message, Interrupted):
                        return False
                    self._on_message(host, message)
                self._drop_silent(time.monotonic())
                self._take_calls()
                if any(self._states.values()):
                    self._onlooker.look()
                if is_over(self._states.values(), time.monotonic(), patience_s) and is_settled():
                    return True
        finally:
            calls = tuple(self._calls.values())
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    def _call(self, host: str, *, shared: bool = True) -> None:
        self._calls[host] = asyncio.ensure_future(self._reach(host, shared=shared))

    async def _reach(self, host: str, *, shared: bool) -> None:
        """Try until `host` is connected."""
        while True:
            failure = (await self._fleet.connect([host], "attach", shared=shared)).get(host)
            if failure is None:
                break
            if isinstance(failure, RunUnknownError | AgentAbsentError):
                self._states[host] = UNKNOWN
            else:
                shared = False  # The shared connection may be dead.
                self._miss(host, str(failure))
            await asyncio.sleep(AGAIN_S)
        if isinstance(self._states[host], float):
            self._note(EventKind.CONTACT_REGAINED, host)
        self._states[host], self._has_seen_any = HEARD, True
        if self._fleet.links[host].hello.phase in ("running", "stopping"):
            self._note(EventKind.ATTACHED, host)
        streams = rank_streams(self._plan)
        await self._fleet.send(
            {host: protocol.Follow({}, streams, tail=TAIL, lag=LAG, usage_s=self._onlooker.usage_every_s)}
        )

    def _take_calls(self) -> None:
        """Forget calls that succeeded; raise the exception of one that failed with a bug."""
        for host in [host for host, call in self._calls.items() if call.done()]:
            self._calls.pop(host).result()
        if not self._has_seen_any and all(isinstance(state, float) for state in self._states.values()):
            raise_if_none(self._record, self._reasons)

    def _drop_silent(self, now: float) -> None:
        silent_s = SILENT_READINGS * self._onlooker.usage_every_s
        for host in tuple(self._reporting):
            if self._states[host] == HEARD and now - self._fleet.links[host].heard_at > silent_s:
                self._lose(host, f"no heartbeat for {silent_s:.0f} s")

    def _lose(self, host: str, reason: str) -> None:
        self._reporting.discard(host)
        self._fleet.drop(host)
        self._miss(host, reason)
        self._call(host, shared=False)

    def _miss(self, host: str, reason: str) -> None:
        if not isinstance(self._states[host], float):
            self._note(EventKind.CONTACT_LOST, host, reason)
            self._states[host] = time.monotonic()
        self._reasons[host] = reason

    def _on_message(self, host: str, message: object) -> None:
        match message:
            case protocol.Usage():
                self._reporting.add(host)
                usage = on_our_clock(message, lambda time: self._fleet.our_time(host, time))
                self._onlooker.show(UsageReported(host, usage, self._fleet.clock(host).seconds))
            case protocol.Output():
                at = self._fleet.our_time(host, message.time)
                self._onlooker.show(LinesWritten(host, message.stream, message.text, at))
            case protocol.Released():
                self._note(EventKind.RELEASED, host, at=message.time)
            case protocol.RankStarted():
                self._note(EventKind.RANK_STARTED, host, at=message.time, rank=message.rank)
            case protocol.RankEnd() if message.rank is not None:
                self._note(EventKind.RANK_ENDED, host, at=message.time, rank=message.rank)
            case protocol.Stopping():
                self._note(EventKind.STOP_ASKED, host, message.reason, at=message.time)
            case protocol.Finished() | protocol.Failed():
                self._states[host] = OVER
            case ConnectionEnded() if self._states[host] == HEARD:
                self._lose(host, message.reason)
            case ForeignMessage():
                self._onlooker.show(Notice(overstepped(host, message)))
            case _:
                pass  # CaughtUp, Pong, PeersUnheard, Skipped.

    def _note(
        self, kind: EventKind, host: str, text: str = "", *, at: float | None = None, rank: int | None = None
    ) -> None:
        moment = steady_clock.now() if at is None else self._fleet.our_time(host, at)
        self._onlooker.show(Event(moment, kind, host, rank, text))
