"""Start a run: plan it, begin its record, run its attempts to the end.

    planned  = plan_start(cluster, job, runs.new_run_id(), say)   of `render.py`: no host is contacted
    recorded = begin(planned, options, emit)           the run has an id, and a record that other verbs find
    outcome  = run(recorded, options, emit)            attempts: connect, prepare, release, follow

`start` does the last two. `run` queues again when another run took its turn. All of them report with `emit`, in the
calling thread. They install no signal handlers: `interrupts` says what may interrupt a run.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.checks.check import Check
from pylaunch.errors import ClusterNotReadyError, PylaunchError
from pylaunch.model.diagnosis.finding import Finding
from pylaunch.model.job import OnHang
from pylaunch.model.node_record import pack
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, base_of, replan
from pylaunch.model.run import Event, EventKind, ran_s
from pylaunch.model.secret import Secrets
from pylaunch.render import PlannedRun, planned_run
from pylaunch.runs.connect.agent_link import enter
from pylaunch.runs.connect.fleet import Fleet, on_fleet
from pylaunch.runs.events import (
    AttemptEnded,
    AttemptRefused,
    AttemptStarted,
    Emit,
    RanksReleased,
    RunBegun,
    RunEvent,
    StartEvent,
    begin_clock,
    clock_now,
    event,
    notice,
    recording,
)
from pylaunch.runs.follow.run_follower import LAST_S, RunFollower, rank_streams
from pylaunch.runs.prepare.launch import AgentArchive, Launch, build, installer
from pylaunch.runs.prepare.queue import wait_until_free
from pylaunch.runs.prepare.session import (
    InterruptedBeforeReleaseError,
    NodesRefusedError,
    PreparedNodes,
    Session,
    TakenError,
    before_release,
)
from pylaunch.runs.proof import finish
from pylaunch.runs.restart import Attempt, Over, Policy, next_attempt
from pylaunch.runs.start_checks import ChecksAtStart, compare_nodes, end_leftovers
from pylaunch.runs.sync.tree import Tree
from pylaunch.store import runs
from pylaunch.transport.connections import connector_of
from pylaunch.transport.interrupts import Interrupter, InterruptSource
from pylaunch.transport.process import spawn

LEAVE_S = 2.0
"""Time that a connection to a spare may take to end."""


@dataclass(frozen=True)
class StartOptions:
    """Options of a start that are no part of the job."""

    checks: Sequence[Check] = ()
    """Run beside the start; see `at_start_checks`."""

    secrets: Secrets = field(default_factory=Secrets)
    """Values of the variables that the job names as secrets. They are recorded nowhere."""

    tree: Tree | None = None
    """The working tree, for a job that says `sync`."""

    waits: bool = False
    """Wait in the queue while other runs hold devices or ports, instead of being refused."""

    ends_leftovers: bool = False
    """First end processes on the hosts that no live run owns."""

    relays_output: bool = True
    """Emit `LinesWritten`. Without, output stays on the nodes, for `pylaunch logs`."""

    progress_every_s: float = 0.0
    """Interval of `ProgressReported`; 0 is never."""

    hold: Callable[[float], float] | None = None
    """Called in a thread before each release, when all nodes are ready, with the seconds that the release needs. It
    returns when the ranks may start, with the instant of their start in seconds since the epoch."""


@dataclass(frozen=True)
class RecordedRun:
    """An attempt that has a record on this machine."""

    planned: PlannedRun
    archive: AgentArchive
    created_at: float
    recorder: runs.Recorder

    @property
    def plan(self) -> RunPlan:
        """The plan in the record."""
        return self.planned.plan


def start(planned: PlannedRun, options: StartOptions, emit: Emit, interrupts: InterruptSource | None = None) -> Outcome:
    """Run `planned` to its end and return the outcome of its last attempt.

    Raises ClusterNotReadyError when no rank can be started (NodesRefusedError has the reasons by host),
    InterruptedBeforeReleaseError when the start is interrupted or stopped before that, and UsageError when the record
    cannot be written.
    """
    return run(begin(planned, options, emit), options, emit, interrupts)


def begin(planned: PlannedRun, options: StartOptions, emit: Emit) -> RecordedRun:
    """Begin the record of a run. Raises UsageError where it cannot be written, and the errors of `end_leftovers`."""
    if options.ends_leftovers:
        end_leftovers(planned.plan, emit)
    recorded = _recorded(planned, build(), emit)
    emit(RunBegun(planned.plan))
    return recorded


def run(recorded: RecordedRun, options: StartOptions, emit: Emit, interrupts: InterruptSource | None = None) -> Outcome:
    """Be the controller of a run: attempt it as often as its job allows, and return how the last attempt ended.

    A run of the queue that loses its turn is refused, and another one waits in its place. Raises the errors of `start`;
    they are recorded as the outcome, too.
    """
    while True:
        try:
            return _run(recorded, options, emit, interrupts)
        except TakenError:
            if not options.waits:
                raise
            emit(event(EventKind.TURN_LOST, "another run was faster: waiting again"))
            plan = replace(recorded.plan, run=runs.new_run_id())
            recorded = begin(planned_run(plan), options, emit)


def _run(recorded: RecordedRun, options: StartOptions, emit: Emit, interrupts: InterruptSource | None) -> Outcome:
    source = Interrupter() if interrupts is None else interrupts
    recorded.recorder.take_charge()
    runs.prune()
    try:

        def attempt(plan: RunPlan) -> Attempt:
            this = recorded if plan is recorded.plan else _recorded(planned_run(plan), recorded.archive, emit)
            try:
                return _Attempt(this, options, emit, source).to_its_end()
            finally:
                if this is not recorded:
                    this.recorder.give_up_charge()

        is_asked_to_stop = partial(runs.is_asked_to_stop, recorded.plan.run)
        return run_attempts(recorded.plan, attempt, is_asked_to_stop, emit).outcome
    finally:
        recorded.recorder.give_up_charge()


def policy_of(plan: RunPlan) -> Policy:
    """Return the restarts that the user allows for `plan`, the first attempt."""
    nodes = len(plan.nodes)
    least = nodes if plan.job.min_nodes is None else plan.job.min_nodes
    return Policy(plan.job.max_restarts, nodes, least, restarts_hangs=plan.job.on_hang is OnHang.RESTART)


def run_attempts(
    plan: RunPlan, attempt: Callable[[RunPlan], Attempt], is_asked_to_stop: Callable[[], bool], report: Emit
) -> Attempt:
    """Call `attempt` until one succeeds or `next_attempt` gives up, or the run is stopped; return the last."""
    policy = policy_of(plan)
    hosts = (*plan.cluster.names, *(host.name for host in plan.spares))
    attempts: list[tuple[float, Attempt]] = []
    while True:
        last = attempt(plan)
        attempts.append((time.monotonic(), last))
        decision = next_attempt(policy, hosts, attempts, time.monotonic())
        if isinstance(decision, Over) or is_asked_to_stop():
            why = decision.why if isinstance(decision, Over) else "the run was stopped"
            if why:
                report(event(EventKind.NO_RESTART, f"no restart: {why}"))
            return last
        plan = replan(plan, decision.hosts)
        change = f" ({decision.why})" if decision.why else ""
        report(event(EventKind.RESTARTING, f"{plan.attempt_words}{change}: run {plan.run}"))


@contextlib.asynccontextmanager
async def in_their_jobs(plan: RunPlan, agent: str) -> AsyncIterator[None]:
    """Keep the daemons of Slurm jobs on the spares of `plan` alive for the body: without a run they would end."""
    hosts = [host for host in plan.spares if host.slurm_job is not None]
    words = {host: enter(host, agent, "keep", base_of(plan.run)) for host in hosts}
    children = [await spawn(connector_of(host, plan.known_hosts).argv(words[host])) for host in hosts]
    try:
        yield
    finally:
        await asyncio.gather(*(child.leave(LEAVE_S) for child in children))


class _Attempt:
    """One attempt: connect, prepare, judge, release, follow."""

    def __init__(self, recorded: RecordedRun, options: StartOptions, emit: Emit, source: InterruptSource) -> None:
        self._recorded = recorded
        self.plan = recorded.plan
        self._options = options
        self._emit = emit
        self._source = source
        self._emit_run = recording(recorded.recorder, self._noting_releases)
        self._releases: list[Event] = []
        self._released_at: float | None = None
        """On the monotonic clock; None before the release."""

        self._known: tuple[Finding, ...] = ()
        """Warnings of the checks, and facts in which the nodes differ."""

    def to_its_end(self) -> Attempt:
        """Run it. Raises ClusterNotReadyError for a first attempt that is refused, unless a restart may help."""
        plan, recorder = self.plan, self._recorded.recorder
        recorder.take_charge()
        self._emit(AttemptStarted(plan))
        try:
            with _refusal_recorded(recorder, lambda: self._released_at is not None):
                agent = self._recorded.archive.version
                ended = on_fleet(plan, agent, self._on_fleet, source=self._source, last_s=LAST_S)
        except ClusterNotReadyError as error:
            if plan.restart == 0 and not _may_be_mended(plan, error):
                raise
            self._emit(AttemptRefused(plan, error))
            refused = error.reasons if isinstance(error, NodesRefusedError) else {}
            return Attempt(plan.cluster.names, _refusal(error), 0.0, refused)
        ended = finish(plan, ended, recorder, self._emit)
        self._emit(AttemptEnded(plan, ended, ran_s(self._releases, ended)))
        seconds = 0.0 if self._released_at is None else time.monotonic() - self._released_at
        return Attempt(plan.cluster.names, ended, seconds, progress=ended.furthest_step)

    def _noting_releases(self, event: RunEvent) -> None:
        if isinstance(event, Event) and event.kind in (EventKind.RELEASED, EventKind.RANK_STARTED):
            self._releases.append(event)
        self._emit(event)

    def _with_findings(self, event: StartEvent) -> None:
        """Emit `event`; a finding is recorded, too."""
        if isinstance(event, Finding):
            self._recorded.recorder.append(event)
        self._emit(event)

    def _waiting(self, blocked_by: list[str]) -> None:
        """Record and report what the start waits for in the queue."""
        self._emit_run(event(EventKind.WAITING, f"waiting for {'; '.join(blocked_by)}"))

    async def _until_ready(self, fleet: Fleet) -> tuple[Session, float | None]:
        """Bring all nodes to the release; return its instant, if the options choose it. An interrupt may end it."""
        async with ChecksAtStart(self.plan, self._options.checks, self._with_findings) as checks:
            if self._options.waits and self.plan.restart == 0:
                await checks.conclude_before_queue()
                await wait_until_free(self.plan, self._waiting)
            session = Session(_launch(self._recorded, self._options), fleet, self._emit_run)
            prepared = await session.prepare(installer(self.plan, self._recorded.archive))
            await self._judge(prepared, checks)
        # Twice: the release asks all nodes before it.
        hold, lead_s = self._options.hold, 2 * session.lead_s
        instant = None if hold is None else await asyncio.to_thread(hold, lead_s)
        await session.confirm()
        return session, instant

    async def _on_fleet(self, fleet: Fleet) -> Outcome:
        session, instant = await before_release(fleet, self._until_ready(fleet))
        plan, options = self.plan, self._options
        async with in_their_jobs(plan, self._recorded.archive.version):
            started = await session.release(instant)
            self._released_at = time.monotonic()
            self._emit(RanksReleased(plan, started))
            streams = rank_streams(plan) if options.relays_output else []
            follower = RunFollower(plan, fleet, self._emit_run, streams=streams)
            follower.relay.progress_every_s = options.progress_every_s
            follower.add_known(self._known)
            return await follower.follow()

    async def _judge(self, prepared: PreparedNodes, checks: ChecksAtStart) -> None:
        """Record the facts of the nodes. Raises ClusterNotReadyError when a run on them would not work."""
        self._recorded.recorder.keep_essentials(prepared.essentials)
        differences = compare_nodes(prepared.essentials, judged_elsewhere=checks.judged)
        for each in differences:
            self._with_findings(each)
        self._known = (*differences, *await checks.conclude(prepared))


def _recorded(planned: PlannedRun, archive: AgentArchive, emit: Emit) -> RecordedRun:
    begin_clock()
    now = clock_now()
    runs.begin(planned.plan, archive.version, now)
    return RecordedRun(planned, archive, now, runs.Recorder(planned.plan.run, lambda text: emit(notice(text))))


def _launch(recorded: RecordedRun, options: StartOptions) -> Launch:
    archive, planned = recorded.archive, recorded.planned
    record = pack(planned.plan, archive.version, recorded.created_at)
    return Launch(planned.plan, planned.commands, record, options.secrets, options.tree)


def _may_be_mended(plan: RunPlan, error: ClusterNotReadyError) -> bool:
    """Return True if another attempt may use other hosts. Resources of other runs are waited for with --queue."""
    return plan.job.max_restarts > 0 and isinstance(error, NodesRefusedError) and not isinstance(error, TakenError)


def _refusal(error: BaseException) -> Outcome:
    """Return the outcome of a run that `error` ended before its release: a stop by a person is no refusal."""
    is_stop = isinstance(error, InterruptedBeforeReleaseError | KeyboardInterrupt)
    reason = error.message if isinstance(error, PylaunchError) else f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, KeyboardInterrupt):
        reason = f"{str(error) or 'interrupted'} before any rank was started"
    return Outcome(
        Status.STOPPED if is_stop else Status.REFUSED, reason, clock_now(), ends=(), leftovers={},
        refusals=error.reasons if isinstance(error, NodesRefusedError) else {},
        evidence=tuple(error.evidence) if isinstance(error, PylaunchError) else (),
        hint=(error.hint or "") if isinstance(error, PylaunchError) else "",
    )  # fmt: skip


@contextlib.contextmanager
def _refusal_recorded(recorder: runs.Recorder, have_started: Callable[[], bool]) -> Iterator[None]:
    """Record an error before the release as the outcome; after it, only the nodes know how the run ends."""
    try:
        yield
    except BaseException as error:
        if not have_started():
            recorder.finish(_refusal(error))
        raise
