"""Follow a run from its release (or attach) to its end, as `run_state` decides."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta

from pylaunch import protocol
from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.job import OnHang
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event, EventKind
from pylaunch.runs.connect.bounds import (
    ConnectionEnded,
    EventBounds,
    ForeignMessage,
    HeardAgain,
    Interrupted,
    Lost,
    NodeSilent,
    Reconnected,
    overstepped,
)
from pylaunch.runs.connect.fleet import Fleet
from pylaunch.runs.events import LIVE_LAG, Emitter, LinesWritten, ProgressReported, clock_now, notice, skipped_line
from pylaunch.runs.follow import hang_watch
from pylaunch.runs.follow.hang_watch import EXAMINE_S, HangNews, HangWatch
from pylaunch.runs.follow.job_end import JobAnswer, JobQuestions
from pylaunch.runs.follow.run_state import RunState, StopAll
from pylaunch.runs.stacks import RunSample, examine, host_evidence, rank_view
from pylaunch.store.runs import user_and_host
from pylaunch.transport.slurm import commands
from pylaunch.verdict.hangs.suspicion import HangReport, ProgressResumed
from pylaunch.verdict.rank_end import described


class OutputRelay:
    """Requests the streams of a run from its nodes, and emits what they send."""

    def __init__(self, plan: RunPlan, fleet: Fleet, emit: Emitter, streams: list[str]) -> None:
        self.on_caught_up: Callable[[], None] = lambda: None
        """Called when all output from before the connection has been emitted."""

        self.progress_every_s = 0.0
        """Longest interval in seconds at which the progress of ranks is emitted; 0 is never."""

        self.tail: int | None = None
        """Number of last lines of each stream to begin with; None begins with the first line."""

        self.lag: int | None = LIVE_LAG
        """Bytes of a stream that may wait before the oldest are skipped; None skips nothing."""

        self._fleet = fleet
        self._emit = emit
        self._streams = streams
        self._offsets: dict[str, dict[str, int]] = {node.host.name: {} for node in plan.nodes}
        self.behind = set(self._offsets)
        """Hosts that have not sent all output from before this controller connected."""

        self._has_caught_up = False

    def request(self, activity_s: float, host: str | None = None) -> protocol.Follow:
        """Return the request of all output, or of that after the last line of `host`.

        `activity_s` is the longest interval at which nodes report signs of life of their ranks; 0 is any.
        """
        offsets = {} if host is None else self._offsets[host]
        tail = None if offsets else self.tail
        wanted = min(filter(None, (activity_s, self.progress_every_s)), default=0.0)
        return protocol.Follow(offsets, self._streams, tail=tail, lag=self.lag, activity_s=wanted)

    def take(self, host: str, message: protocol.Output | protocol.Skipped | protocol.Activity) -> None:
        """Emit a message of `host`."""
        if isinstance(message, protocol.Activity):
            if self.progress_every_s:
                signs = [replace(each, time=self._fleet.our_time(host, each.time)) for each in message.ranks]
                self._emit(ProgressReported(host, signs))
            return
        self._offsets[host][message.stream] = message.offset
        if isinstance(message, protocol.Skipped):
            self._emit(notice(skipped_line(host, message)))
        else:
            self._emit(LinesWritten(host, message.stream, message.text, self._fleet.our_time(host, message.time)))

    def note_caught_up(self, host: str, message: object, live: Iterable[str]) -> None:
        """Call `on_caught_up` once no live host sends output from before the connection any more."""
        if isinstance(message, protocol.CaughtUp):
            self.behind.discard(host)
        if not self._has_caught_up and self.behind.isdisjoint(live):
            self._has_caught_up = True
            self.on_caught_up()


Judge = Callable[[Outcome, RunPlan], Outcome]

PROOF_S = 15.0
"""For a node to prove that it is clean, after SIGKILL."""

LAST_PROOF_S = 4.0
"""For nodes to prove that they are clean, after the second Ctrl-C."""

EXIT_S = 30.0
"""Longest time between an exception and the exit of its rank; an earlier time is not believed."""

STOPS = "stopping; Ctrl-C again kills at once"
"""Notice for the first interrupt."""

LAST_S = 2 * LAST_PROOF_S
"""Until the outcome is known and all connections are closed, after the second Ctrl-C."""


def rank_streams(plan: RunPlan, rank: int | None = None) -> list[str]:
    """Return the streams of all ranks, or of one; without those of launchers."""
    ranks = range(plan.world_size) if rank is None else (rank,)
    return [f"{each}.{channel}" for each in ranks for channel in ("out", "err")]


class RunFollower:
    """Follows one run on all of its nodes until it is over."""

    def __init__(self, plan: RunPlan, fleet: Fleet, emit: Emitter, *, streams: list[str], leads: bool = True) -> None:
        self._plan = plan
        self.leads = leads
        """This follower decides for the run. Another one orders nothing, counts no silent node as lost, and no node
        relies on it."""

        self._fleet = fleet
        self._emit = emit
        self.relay = OutputRelay(plan, fleet, emit, streams)

        ranks = {node.host.name: frozenset(rank.rank for rank in node.ranks) for node in plan.nodes}
        self._state = RunState(ranks)
        self._hang_watch = HangWatch(plan, self._examine, lambda: self._state)
        self._serial = protocol.UNASKED
        self._bounds = EventBounds()
        self._jobs = JobQuestions(plan, commands.job_state, fleet.post)
        self._unreached: list[str] = []
        """Hosts without a connection, which a follower that does not lead calls."""

        self._interrupts = 0
        self._reads_to_end = True
        self._give_up_at: float | None = None
        self._loading: asyncio.Task[Judge] | None = None
        """Loads what judges a failure, while the nodes stop."""

    @property
    def live(self) -> frozenset[str]:
        """Hosts that have not reported their end, and are not lost."""
        return frozenset(self._state.live)

    def add_known(self, findings: tuple[Finding, ...]) -> None:
        """Add what the start found, which may explain a failure."""
        self._state = replace(self._state, findings=findings)

    def given_up(self, host: str, reason: str, *, host_answers: bool) -> None:
        """Count the agent on `host` as lost, and the host, too, unless it answers."""
        self._state = self._state.with_lost(host, reason, self._plan.job.failure_grace, host_answers=host_answers)

    def not_reached(self, host: str, reason: str, *, host_answers: bool) -> None:
        """Count the agent on `host` as lost, or call it until it answers if another process leads the run."""
        if self.leads:
            self.given_up(host, reason, host_answers=host_answers)
        else:
            self._note(EventKind.CONTACT_LOST, host, reason)
            self._unreached.append(host)

    def nothing_there(self, host: str) -> None:
        """Count `host`, which knows nothing of this run, as finished and not proven clean: its files may be gone."""
        self._state = self._state.with_unknown(host, self._plan.job.failure_grace)

    async def follow(self) -> Outcome:
        """Relay output and events until every node has finished or is lost.

        Without the lead also when some have finished, and no other answers within its timeout.
        """
        await self.read()
        judge = None if self._loading is None else await self._loading
        outcome = self._state.outcome(clock_now())
        if outcome.causes:
            outcome = (judge or _judge())(outcome, self._plan)
        self._emit(Event(outcome.ended_at, EventKind.ENDED, text=outcome.reason))
        return outcome

    async def read(self, *, to_end: bool = True) -> None:
        """Follow without an outcome. Unless `to_end`, return when all output from before the connection has arrived."""
        self._reads_to_end = to_end
        self._fleet.keep_watch(self._state.live, self._plan.job.node_timeout.total_seconds(), leads=self.leads)
        for host in self._unreached:
            self._fleet.reconnect(host)
        if self._state.stop is not None and self.leads:
            # Before Follow: a node on which the run is over ends the connection after it.
            await self._stop_all(self._state.stop)
        await self._fleet.broadcast(self._request(), self._fleet.links)
        watching = asyncio.ensure_future(self._watch_for_hangs())
        watching.add_done_callback(self._report_failure)
        try:
            await self._follow_messages()
        finally:
            self._jobs.end()
            watching.cancel()
            await asyncio.wait({watching})

    def _request(self, host: str | None = None) -> protocol.Follow:
        """Return the request of all output and signs of life, or of those after the last line of `host`."""
        return self.relay.request(hang_watch.interval_s(self._plan), host)

    async def _follow_messages(self) -> None:
        while self._awaited():
            try:
                async with asyncio.timeout_at(self._give_up_at):
                    host, message = await self._fleet.inbox.hear()
            except TimeoutError:
                break
            ordered = self._state.stop
            await self._on_message(host, message)
            self.relay.note_caught_up(host, message, self._state.live)
            if not self.leads:
                self._await_others(host, message)
            elif self._state.stop is not None and self._state.stop != ordered:
                await self._stop_all(self._state.stop)

    def _awaited(self) -> Collection[str]:
        return self._state.live if self._reads_to_end else self.relay.behind.intersection(self._state.live)

    def _await_others(self, host: str, message: object) -> None:
        """Limit the wait while no awaited node is reached: to the end, only once another one has finished."""
        awaited = self._awaited()
        if self._fleet.links.keys().isdisjoint(awaited) and (self._state.finished or not self._reads_to_end):
            self._give_up_within(self._plan.job.node_timeout.total_seconds())
        elif self._reads_to_end or (host in awaited and isinstance(message, protocol.Output | protocol.Skipped)):
            self._give_up_at = None  # Of past output alone, connections that end again and again have a limit.

    def _report_failure(self, watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and (error := watching.exception()) is not None:
            self._emit(notice(f"warning: hangs are watched no longer: {type(error).__name__}: {error}"))

    async def _examine(
        self, *, call_sites: bool = False, progress: bool = False, node: bool = False, within_s: float = EXAMINE_S
    ) -> RunSample:
        self._serial += 1
        request = protocol.Examine(self._serial, call_sites, progress, within_s / 2, node)
        hosts = self._fleet.links.keys() & self._state.live
        return (await examine(self._fleet, hosts, request, within_s)).sample

    async def _watch_for_hangs(self) -> None:
        while self._plan.job.hang_after is not None:
            self._fleet.post(await self._hang_watch.next())

    def _on_hang(self, news: HangNews) -> None:
        event = hang_watch.event(news, self._plan.job.on_hang)
        self._record(event)
        acts = self.leads and self._plan.job.on_hang is not OnHang.OBSERVE and self._state.stop is None
        if acts and isinstance(news, HangReport) and news.finding.confidence is Confidence.HIGH:
            self._state = self._state.with_hang(news.finding, self._plan.job.failure_grace, event.time)

    def _on_own(self, message: HangNews | JobAnswer | Interrupted) -> None:
        if isinstance(message, JobAnswer):
            self._on_job_answer(message)
        elif isinstance(message, Interrupted):
            self._interrupt(str(message))
        else:
            self._on_hang(message)

    def _on_view(self, host: str, message: protocol.RankView) -> None:
        view = rank_view(host, message, self._fleet.clock(host))
        before, self._state = self._state, self._state.with_view(view)
        if self._state is not before:
            # The first one only: a node that sends more must not fill the disk of the controller.
            self._emit(view)

    def order_stop(self, reason: str, grace: timedelta) -> None:
        """Request a stop by hand; `follow` carries it out."""
        self._interrupts += 1
        self._state = self._state.with_stop_by_hand(reason, grace, clock_now())

    async def _on_message(self, host: str, message: object) -> None:
        match message:
            case protocol.Output() | protocol.Skipped():
                self.relay.take(host, message)
            case protocol.RankStarted():
                self._state = self._state.with_started(message.rank)
                self._event(EventKind.RANK_STARTED, host, message.time, rank=message.rank, text=f"pid {message.pid}")
            case protocol.RankEnd():
                self._on_end(host, message)
            case protocol.Finished():
                self._fleet.dismiss(host)
                self._state = self._state.with_finished(host, tuple(message.leftovers), self._plan.job.failure_grace)
                self._state = self._state.with_unreadable(host, message.unreadable)
            case protocol.Failed():
                self._fleet.dismiss(host)
                self._state = self._state.with_restarted([host] if message.code == protocol.HOST_RESTARTED else [])
                self.given_up(host, message.message, host_answers=True)
            case protocol.Stopping():
                self._on_stopping(host, message)
            case protocol.HostEvidence() if message.serial == protocol.UNASKED:
                self._state = self._state.with_facts(host_evidence(host, message, self._fleet.clock(host)))
            case protocol.RankView() if message.serial == protocol.UNASKED:
                self._on_view(host, message)
            case protocol.Activity():
                self._hang_watch.add(message)
                self.relay.take(host, message)
            case HangReport() | ProgressResumed() | JobAnswer() | Interrupted():
                self._on_own(message)
            case _:
                await self._on_contact(host, message)

    def _on_job_answer(self, answer: JobAnswer) -> None:
        """End the nodes of a job that has ended; treat those of another job as nodes without one."""
        hosts = [host for host in answer.hosts if host in self._state.live]
        if answer.is_ending:
            self._emit(notice(f"Slurm job {answer.job} is ending"))
        if answer.is_ending or answer.end:
            for host in hosts:
                self._fleet.dismiss(host)
        held = {} if answer.is_ending else {host: self._jobs.release(host) for host in hosts}
        if answer.is_cancelled:
            self._state = self._state.with_cancelled(hosts, answer.end, self._plan.job.stop_grace, answer.at)
        elif answer.end:
            for host in hosts:
                self.given_up(host, answer.end, host_answers=False)
        else:
            for host, message in held.items():
                if message is not None:
                    self._on_unexplained(host, message)

    def _on_unexplained(self, host: str, message: ConnectionEnded | Lost) -> None:
        if isinstance(message, Lost):
            self.given_up(host, message.reason, host_answers=message.host_answers)
        else:
            self._note(EventKind.CONTACT_LOST, host, message.reason)
            self._fleet.reconnect(host)

    async def _on_contact(self, host: str, message: object) -> None:
        match message:
            case ConnectionEnded() | Lost() if host in self._state.live:
                if not self._jobs.holds(host, message):
                    self._on_unexplained(host, message)
            case NodeSilent():
                self._note(EventKind.CONTACT_LOST, host, f"no heartbeat for {message.seconds:.0f} s")
            case HeardAgain():
                self._note(EventKind.CONTACT_REGAINED, host, "")
            case Reconnected():
                self._jobs.release(host)
                self._note(EventKind.CONTACT_REGAINED, host, "")
                await self._fleet.broadcast(self._request(host), [host])
                if (stop := self._state.stop) is not None and self.leads:
                    await self._order_stop(stop, [host])
            case ForeignMessage():
                self._emit(notice(overstepped(host, message)))
            case protocol.Released() if not self.leads:
                self._event(EventKind.RELEASED, host, message.time, rank=None, text="")
            case _:
                pass  # Released after a reconnect, and views for a request that is over.

    def _on_end(self, host: str, message: protocol.RankEnd) -> None:
        clock, at = self._fleet.clock(host), self._fleet.our_time(host, time_of(message))
        before = self._state
        # A launcher that ends after an order to stop was stopped.
        stopped = message.obeyed or (message.rank is None and before.stop is not None)
        end = replace(message, host=host, time=at, stopped=stopped, uncertainty_s=clock.uncertainty)
        self._state = before.with_end(end, self._plan.job.failure_grace)
        if self._state is not before and end.rank is not None:
            self._record(Event(end.time, EventKind.RANK_ENDED, host, end.rank, described(end)))

    def _on_stopping(self, host: str, message: protocol.Stopping) -> None:
        self._state = self._state.with_states(host, tuple(message.ranks))
        if not self.leads:
            self._event(EventKind.STOP_ASKED, host, message.time, rank=None, text=message.reason)
        if message.by_hand:
            at = self._fleet.our_time(host, message.time)
            self._state = self._state.with_stop_by_hand(message.reason, self._plan.job.stop_grace, at)
        else:
            reason = _stop_reason(host, message, self._state.ranks)
            if message.reason.endswith(protocol.SIGNALLED):
                self._jobs.ask(host)
            # After SIGTERM of Slurm, ranks have the time of a stop by hand, to save a checkpoint.
            job = self._plan.job
            grace = job.stop_grace if message.reason.endswith(protocol.SIGNALLED) else job.failure_grace
            self._state = self._state.with_stopping(reason, grace)

    def _interrupt(self, reason: str) -> None:
        if self._interrupts == 0:
            self._emit(notice(STOPS))
            self.order_stop(f"{reason} ({user_and_host()})", self._plan.job.stop_grace)
        else:
            self._emit(notice("killing; Ctrl-C again ends pylaunch without waiting for the proof"))
            self.order_stop(reason, timedelta(0))
            self._give_up_within(LAST_PROOF_S)

    async def _stop_all(self, stop: StopAll) -> None:
        if self._loading is None and not stop.by_hand:
            self._loading = asyncio.create_task(asyncio.to_thread(_judge))
        self._give_up_within(stop.grace.total_seconds() + PROOF_S)
        await self._order_stop(stop, self._state.live)
        self._note(EventKind.STOP_ASKED, None, stop.shown or stop.reason)

    async def _order_stop(self, stop: StopAll, hosts: Iterable[str]) -> None:
        order = protocol.Stop(stop.grace.total_seconds(), stop.reason, by_hand=stop.by_hand)
        await self._fleet.broadcast(order, hosts)

    def _give_up_within(self, seconds: float) -> None:
        give_up_at = asyncio.get_running_loop().time() + seconds
        self._give_up_at = give_up_at if self._give_up_at is None else min(self._give_up_at, give_up_at)

    def _note(self, kind: EventKind, host: str | None, text: str) -> None:
        self._record(Event(clock_now(), kind, host, text=text))

    def _event(self, kind: EventKind, host: str, node_time: float, *, rank: int | None, text: str) -> None:
        self._record(Event(self._fleet.our_time(host, node_time), kind, host, rank, text))

    def _record(self, event: Event) -> None:
        if self._bounds.admits(event):
            self._emit(event)
        elif text := self._bounds.notice(event):
            self._emit(notice(text))


def time_of(message: protocol.RankEnd) -> float:
    """Return the time of a failure on the node's clock: libraries take seconds between an exception and the exit.

    A victim wrote its exception after another rank failed, and is not earlier for that.
    """
    if message.rank is None or message.symptom:
        return message.time
    is_known = message.time - EXIT_S <= message.raised_at <= message.time
    return message.raised_at if is_known else message.time


def _stop_reason(host: str, message: protocol.Stopping, hosts: Iterable[str]) -> str:
    """Return the reason of a stop with the host where it began: one that came from another node names that node."""
    is_named = any(message.reason.startswith((f"{name}:", f"{name} lost:")) for name in hosts)
    return message.reason if is_named else f"{host}: {message.reason}"


def _judge() -> Judge:
    """Return the function that adds the classes of texts to the causes of an outcome.

    It takes 0.1 s of processor time, for 230 patterns and the modules of a verdict, that only a failure costs.
    """
    from pylaunch.store.content import signatures  # noqa: PLC0415
    from pylaunch.verdict import recognised_ends, verdict  # noqa: F401, PLC0415

    catalogue = signatures()
    return lambda outcome, plan: recognised_ends.with_classes(outcome, catalogue, plan)
