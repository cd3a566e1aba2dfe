"""State of runs: as their records report it, and where the end is not recorded, as their nodes report it now."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from pylaunch import protocol
from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.errors import PylaunchError, UsageError
from pylaunch.model.outcome import Outcome
from pylaunch.model.plan import RunPlan, attempt_of
from pylaunch.model.run import EventKind, Notes, PreviousAttempt, RunRecord, ignore
from pylaunch.model.slurm_job import UNKNOWN, JobState
from pylaunch.runs.connect.agent_link import AgentAbsentError, LinkError, RunUnknownError
from pylaunch.runs.connect.fleet import Fleet, with_fleet
from pylaunch.runs.events import Emitter, ProgressReported, RunEvent, recording
from pylaunch.runs.follow.run_follower import RunFollower, rank_streams
from pylaunch.runs.proof import NodeProof, is_in_doubt, leftover_processes, prove_again
from pylaunch.store import runs
from pylaunch.transport import interrupts
from pylaunch.transport.connections import patience
from pylaunch.transport.slurm.commands import job_states

GLIMPSE_S = 3.0
"""Time limit for the progress and the last lines of a live run: `status` shows what has arrived."""

GLIMPSE_EVERY_S = 0.5
TAIL = 5
"""Last lines of each stream to begin with: the last one, and probably one with a step."""

SILENT = 3
"""Times `node_timeout` in which a node that has ended must report its end."""

ASKED_AT_ONCE = 4
"""Runs whose nodes are asked at the same time: sshd allows ten sessions on a connection, and live runs have theirs."""


@dataclass(frozen=True)
class NodeState:
    """State of one node of a run."""

    host: str
    phase: str
    """Phase of the agent; "not answering" where the host answers and its agent does not, "not found" where it has no
    file of the run, or "unreachable"."""

    running: tuple[int, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class RunStatus:
    """State of a run on each of its nodes, and its outcome if every node reports that it is over."""

    nodes: tuple[NodeState, ...]
    outcome: Outcome | None

    @property
    def state(self) -> str:
        """The state in one word: that of the outcome, else the most active phase of any node."""
        if self.outcome is not None:
            return self.outcome.status.value
        phases = {node.phase for node in self.nodes}
        return next((phase for phase in _LIVELIEST_FIRST if phase in phases), "unreachable")


_LIVELIEST_FIRST = ("running", "stopping", "prepared", "new", "waiting", "starting", "not answering", "not found")


async def _ask(record: RunRecord, recorder: runs.Recorder | None, show: Emitter | None = None) -> RunStatus:
    """Ask the nodes of a run without an outcome. Without `recorder` a controller leads it, and may be starting it.

    `show` gets the progress and the last lines of the ranks of a live run.
    """
    is_waiting = bool(record.events) and record.events[-1].kind is EventKind.WAITING
    before = "waiting" if is_waiting else "starting"
    absent = "finished" if recorder is not None or record.has_started else before

    async def work(fleet: Fleet) -> RunStatus:
        names = [node.host.name for node in record.plan.nodes]
        failures = await fleet.connect(names, "attach")
        nodes = tuple(_state(name, fleet, failures, absent) for name in names)
        if any(node.phase not in ("finished", protocol.AGENT_LOST) for node in nodes):
            if show is not None and (running := {node.host for node in nodes if node.running}):
                await _glimpse(record.plan, fleet, show, running)
            return RunStatus(nodes, None)
        follower = RunFollower(record.plan, fleet, recording(recorder, lambda _: None), streams=[], leads=False)
        for name in failures:
            follower.nothing_there(name)
        try:
            async with patience(SILENT * record.plan.job.node_timeout.total_seconds()):
                outcome = await follower.follow()
        except TimeoutError:
            silent = partial(replace, phase="not answering", reason="it does not report how its ranks ended")
            return RunStatus(tuple(silent(node) if node.host in follower.live else node for node in nodes), None)
        ended_at = max((end.time for end in outcome.ends), default=outcome.ended_at)
        return RunStatus(nodes, replace(outcome, ended_at=ended_at))

    return await with_fleet(record.plan, record.agent, work)


async def _glimpse(plan: RunPlan, fleet: Fleet, show: Emitter, hosts: Collection[str]) -> None:
    """Follow `hosts`, which answer, until each has reported its progress or the attempt is over, GLIMPSE_S at most."""
    awaited, have_reported = set(hosts), asyncio.Event()

    def emit(event: RunEvent) -> None:
        show(event)
        if isinstance(event, ProgressReported):  # After the last lines of the ranks.
            awaited.discard(event.host)
            if not awaited:
                have_reported.set()

    follower = RunFollower(plan, fleet, emit, streams=rank_streams(plan), leads=False)
    follower.relay.progress_every_s, follower.relay.tail = GLIMPSE_EVERY_S, TAIL
    for name in set(plan.cluster.names).difference(hosts):
        follower.nothing_there(name)
    ends = [asyncio.ensure_future(follower.follow()), asyncio.ensure_future(have_reported.wait())]
    await asyncio.wait(ends, timeout=GLIMPSE_S, return_when=asyncio.FIRST_COMPLETED)
    for each in ends:
        each.cancel()
    await asyncio.gather(*ends, return_exceptions=True)


def _state(name: str, fleet: Fleet, failures: Mapping[str, LinkError], absent: str) -> NodeState:
    failure = failures.get(name)
    if isinstance(failure, RunUnknownError) or (isinstance(failure, AgentAbsentError) and absent != "finished"):
        return NodeState(name, absent, reason=str(failure) if absent == "finished" else "")
    if failure is not None:
        phase = "not answering" if failure.host_answers else "unreachable"
        return NodeState(name, phase, reason=str(failure))
    hello = fleet.links[name].hello
    return NodeState(name, hello.phase, tuple(hello.running))


@dataclass(frozen=True)
class RunReport:
    """One run: its record, its state, and who controls it."""

    record: RunRecord
    status: RunStatus
    controller: int | None = None
    """Process on this machine that leads the run; `runs.ELSEWHERE` for one on another machine."""

    @property
    def has_stopped_controller(self) -> bool:
        """The process that leads the run is stopped: the run continues, and nobody follows it or starts it again."""
        return self.controller is not None and runs.is_stopped(self.controller)

    proofs: Mapping[str, NodeProof] = field(default_factory=dict)
    """Answers of nodes that were asked again whether they are clean, by host."""

    jobs: Mapping[str, JobState] = field(default_factory=dict)
    """States of the Slurm jobs of a run that is not known to be over, by id, as far as Slurm answers."""


def report(record: RunRecord, on_note: Notes = ignore, show: Emitter | None = None) -> RunReport:
    """Return the state of one run. Nodes that have not proven that they are clean are asked again.

    `show` gets the progress and the last lines of the ranks of a live run.
    """
    (status,) = statuses([record], on_note, show)
    proofs: Mapping[str, NodeProof] = {}
    if status.outcome is not None and is_in_doubt(status.outcome):
        proven = prove_again(record, status.outcome, on_note)
        status, proofs = replace(status, outcome=proven.outcome), proven.proofs
    jobs = slurm_states([record.plan] if status.outcome is None else [], on_note)
    return RunReport(record, status, runs.controller(record.plan.run), proofs, jobs)


def list_runs(
    *, past: bool, on_note: Notes = ignore, reached: Callable[[RunRecord], RunRecord] = lambda record: record
) -> list[RunReport]:
    """Return the recorded runs that are live or not known to be clean, and with `past` all others; the newest first.

    `reached` says how the hosts of a record are reached.
    """
    records = [
        reached(record)
        for record in runs.readable(on_note)
        if past or record.outcome is None or is_in_doubt(record.outcome)
    ]  # fmt: skip
    known = list(zip(records, statuses(records, on_note), strict=True))
    jobs = slurm_states([record.plan for record, status in known if status.outcome is None], on_note)
    return [
        RunReport(
            record, status, runs.controller(record.plan.run),
            jobs={job: jobs[job] for job in record.plan.slurm_jobs if status.outcome is None and job in jobs},
        )
        for record, status in known
        if past or status.outcome is None or is_in_doubt(status.outcome)
    ]  # fmt: skip


def slurm_states(plans: Iterable[RunPlan], on_note: Notes = ignore) -> Mapping[str, JobState]:
    """Return the states of the Slurm jobs of runs, by id: one request to Slurm, and none without a job.

    Empty, with a note, where Slurm does not answer.
    """
    wanted = tuple(dict.fromkeys(job for plan in plans for job in plan.slurm_jobs))
    try:
        found = job_states(wanted) if wanted else {}
    except PylaunchError as error:
        on_note(f"note: the state of Slurm job {', '.join(wanted)} is not known: {error.message}")
        return {}
    return {job: found.get(job, JobState(UNKNOWN)) for job in wanted}


def statuses(records: Sequence[RunRecord], on_note: Notes = ignore, show: Emitter | None = None) -> list[RunStatus]:
    """Return the state of each run. Asks the nodes of those whose end is not recorded, and records an end they report.

    The record of a run that a controller leads is left to that controller.
    """
    unknown = [record for record in records if record.outcome is None]
    recorders = [
        None if runs.controller(record.plan.run) is not None else runs.Recorder(record.plan.run, on_note)
        for record in unknown
    ]

    async def ask_all() -> list[RunStatus]:
        room = asyncio.Semaphore(ASKED_AT_ONCE)

        async def in_turn(record: RunRecord, recorder: runs.Recorder | None) -> RunStatus:
            async with room:
                return await _ask(record, recorder, show)

        return await asyncio.gather(*map(in_turn, unknown, recorders))

    answers = {}
    for record, recorder, status in zip(unknown, recorders, interrupts.run(ask_all()), strict=True):
        answers[record.plan.run] = answer = _without_strangers(record, status)
        if answer.outcome is not None and recorder is not None:
            recorder.finish(answer.outcome)
    return [answers.get(record.plan.run) or RunStatus((), record.outcome) for record in records]


def _without_strangers(record: RunRecord, status: RunStatus) -> RunStatus:
    """Return `status` without an outcome where no machine that was asked has seen the run: it may live elsewhere."""
    if record.began is None or status.outcome is None or len(status.outcome.unproven) < len(status.nodes):
        return status
    reasons = {host: each.reason for host, each in leftover_processes(record, status.outcome.unproven).items()}
    if not all(reasons.values()):
        return status
    return RunStatus(tuple(NodeState(host, "not found", reason=reason or "") for host, reason in reasons.items()), None)


def previous_attempt(plan: RunPlan) -> PreviousAttempt | None:
    """Return the attempt before that of `plan`; None for a first attempt, or where its end is not recorded here."""
    known = [run for run in runs.attempts(plan.run) if attempt_of(run) < plan.restart]
    try:
        before = runs.read(known[-1]) if known else None
    except UsageError:
        return None  # Damaged: readers of all records report it.
    if before is None or before.outcome is None:
        return None
    return PreviousAttempt(before.plan.attempt, before.outcome.reason)


def start_seconds(record: RunRecord) -> dict[str, float]:
    """Return the duration of each phase of the start."""
    released = [event for event in record.events if event.kind is EventKind.RELEASED and event.host is None]
    return dict(released[-1].seconds) if released else {}
