"""Carrying a plan out, for every verb that starts something: attempts, checks, the record, and how it ended."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pylaunch import __version__
from pylaunch.cli import console
from pylaunch.cli.at_start import ChecksAtStart
from pylaunch.cli.background import wait_until_well
from pylaunch.cli.flags import sync
from pylaunch.cli.flags.invocation import current
from pylaunch.cli.views import document, hints, run_data
from pylaunch.cli.views.collecting import collect
from pylaunch.cli.views.live import Live, counted, show_outcome
from pylaunch.cli.views.terminal import watching
from pylaunch.errors import ClusterNotReadyError, ExitCode, PylaunchError
from pylaunch.explain.restart import Attempt
from pylaunch.launch.attempts import AttemptIO, run_attempts
from pylaunch.launch.start.agreement import judge
from pylaunch.launch.start.archive import AgentArchive, build
from pylaunch.launch.start.launch import Launch, OnReady, launch, vet
from pylaunch.launch.start.payload import Payload
from pylaunch.launch.start.queue import Turn
from pylaunch.launch.start.session import InterruptedBeforeReleaseError, NodesRefusedError, PreparedNodes, TakenError
from pylaunch.model.attestation import Attestation, HostRecord
from pylaunch.model.hostset import fold
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.plan import RunPlan, standby
from pylaunch.preflight.check import Check
from pylaunch.render import render
from pylaunch.store import runs
from pylaunch.store.paths import run_paths
from pylaunch.transport.process import Background, Foreground, fork_to_background


@dataclass(frozen=True)
class StartOptions:
    """How a plan is to be carried out; nothing in it belongs to the job itself."""

    checks: Sequence[Check]
    """Those asked beside the start."""

    detach: bool = False
    """Return when the ranks run."""

    turn: Turn | None = None
    """Wait for what other runs hold; None is refused instead."""

    cargo: Payload = field(default_factory=Payload)
    collect_to: Path | None = None
    """Bring all logs of the last attempt that had ranks here at the end."""


def run_plan(plan: RunPlan, manner: StartOptions) -> int:
    """Start `plan`, again where it allows that, and follow it to its end; in the background from when its ranks run."""
    archive = build()
    recorder = _begin(plan, archive)
    terminal: Foreground | None = None
    if manner.detach:
        log = run_paths(plan.run).log
        log.touch(mode=0o600)
        half = fork_to_background(log)
        if isinstance(half, Background):
            return wait_until_well(plan.run, half, log)
        terminal = half
        current().as_json = False  # The half at the terminal prints the document.
    recorder.take_charge()
    runs.prune()
    if plan.spares:
        with _refusal_recorded(recorder, lambda: False):
            plan = _with_fit_spares(plan, manner.cargo, archive, recorder)
    means = AttemptIO(
        attempt=lambda each: _attempt(each, manner, archive, terminal),
        is_asked_to_stop=lambda: runs.is_asked_to_stop(plan.run),
        tell=console.say,
        clock=time.monotonic,
    )
    ended = run_attempts(plan, means).outcome
    if manner.collect_to is not None:
        _collect(plan.run, manner.collect_to)
    return exit_code(ended)


def run_with_document(plan: RunPlan, manner: StartOptions, *, as_json: bool) -> int:
    """`run_plan`, and for --json how the run stands then. stdout belongs to that document: what ranks write there goes
    where the talk is."""
    if not as_json:
        return run_plan(plan, manner)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return run_plan(plan, manner)
    finally:
        if current().as_json:
            document.show(run_data.latest(plan.run))


def _begin(plan: RunPlan, archive: AgentArchive) -> runs.Recorder:
    runs.begin(plan, archive.version, time.time())
    return runs.Recorder(plan.run, console.say)


def _with_fit_spares(plan: RunPlan, cargo: Payload, archive: AgentArchive, recorder: runs.Recorder) -> RunPlan:
    """Without the spares that could not take part now, each of which is told."""
    asked = standby(plan)
    reasons = vet(Launch(asked, render(asked), archive, time.time(), cargo=cargo), Live(asked, recorder))
    for host, why in reasons.items():
        console.say(f"spare {host} cannot stand in: {'; '.join(why)}")
    return replace(plan, spares=tuple(host for host in plan.spares if host.name not in reasons))


def _attempt(plan: RunPlan, manner: StartOptions, archive: AgentArchive, terminal: Foreground | None) -> Attempt:
    """One try. Raises ClusterNotReadyError for a first one that is refused and that no restart may mend, and on Ctrl-C
    before its release."""
    recorder = runs.Recorder(plan.run, console.say) if plan.restart == 0 else _begin(plan, archive)
    recorder.take_charge()
    hosts = plan.cluster.names
    console.say(f"run {plan.run}: {counted(plan.world_size, 'rank')} on {fold(hosts)} ({plan.job.framework.value})")
    started = _Started(terminal)
    try:
        with (
            _refusal_recorded(recorder, lambda: started.has_happened),
            ChecksAtStart(plan, manner.checks) as checks,
            watching(plan, recorder) as watcher,
        ):
            what = Launch(
                plan, render(plan), archive, runs.read(plan.run).created_at,
                relays_output=terminal is None, turn=manner.turn if plan.restart == 0 else None, cargo=manner.cargo,
                before_queue=checks.conclude_before_queue,
            )  # fmt: skip
            ended = launch(what, watcher, on_ready=_judging(plan, recorder, checks, manner.cargo), on_start=started)
    except ClusterNotReadyError as error:
        if isinstance(error, InterruptedBeforeReleaseError) or (plan.restart == 0 and not _may_be_mended(plan, error)):
            raise
        console.say(hints.completed(error.render()))
        refused = error.reasons if isinstance(error, NodesRefusedError) else {}
        return Attempt(hosts, _refusal(error), 0.0, refused)
    recorder.finish(ended)
    show_outcome(plan, ended, runs.read(plan.run).ran_s(ended))
    return Attempt(hosts, ended, started.seconds_ago(), progress=ended.furthest_step)


def _may_be_mended(plan: RunPlan, error: ClusterNotReadyError) -> bool:
    """Another attempt on other hosts is allowed. What other runs hold is waited for with --queue instead."""
    return plan.job.max_restarts > 0 and isinstance(error, NodesRefusedError) and not isinstance(error, TakenError)


def _refusal(error: BaseException) -> Outcome:
    reason = error.message if isinstance(error, PylaunchError) else f"{type(error).__name__}: {error}".rstrip(": ")
    return Outcome(
        Status.REFUSED, reason, time.time(), ends=(), leftovers={},
        refusals=error.reasons if isinstance(error, NodesRefusedError) else {},
        evidence=tuple(error.evidence) if isinstance(error, PylaunchError) else (),
        hint=(error.hint or "") if isinstance(error, PylaunchError) else "",
    )  # fmt: skip


@contextlib.contextmanager
def _refusal_recorded(recorder: runs.Recorder, have_started: Callable[[], bool]) -> Iterator[None]:
    """Whatever keeps ranks from being started is how the run ended; once they run, only their nodes know that."""
    try:
        yield
    except BaseException as error:
        if not have_started():
            recorder.finish(_refusal(error))
        raise


def _collect(run: str, directory: Path) -> None:
    for record in map(runs.read, reversed(runs.attempts(run))):
        if record.outcome is None or record.outcome.status is not Status.REFUSED:
            collect(record, directory)
            return


def _judging(plan: RunPlan, recorder: runs.Recorder, checks: ChecksAtStart, cargo: Payload) -> OnReady:
    """Keeps what the nodes are with the run, and judges whether they may run together, and at all."""

    async def on_ready(prepared: PreparedNodes) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = {host: HostRecord({"essentials": facts}) for host, facts in prepared.essentials.items()}
        recorder.attest(Attestation(now, __version__, found))
        for line in judge(plan.cluster, prepared.essentials, judged_elsewhere=checks.judged):
            console.say(hints.completed(line))
        await checks.conclude(prepared)
        if cargo.tree is not None:
            sync.warn_of_changes(cargo.tree)

    return on_ready


class _Started:
    """Hears that the ranks run: says how that went, and lets the terminal of a detached start go."""

    def __init__(self, terminal: Foreground | None) -> None:
        self._terminal = terminal
        self._at = time.monotonic()
        self.has_happened = False

    def __call__(self, phases: Mapping[str, float], skew_s: float, uncertainty_s: float) -> None:
        self._at = time.monotonic()
        self.has_happened = True
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in phases.items())
        console.say(
            f"started in {sum(phases.values()):.2f} s ({parts}); "
            f"release skew {skew_s * 1000:.1f} ms ± {uncertainty_s * 1000:.1f}"
        )
        if self._terminal is not None:
            self._terminal.let_go()

    def seconds_ago(self) -> float:
        """Since the ranks were released."""
        return time.monotonic() - self._at


def exit_code(outcome: Outcome) -> ExitCode:
    """The exit code of a verb that saw a run end."""
    return {
        Status.DONE: ExitCode.DONE,
        Status.FAILED: ExitCode.JOB_FAILED,
        Status.STOPPED: ExitCode.INTERRUPTED,
        Status.REFUSED: ExitCode.CLUSTER_NOT_READY,
    }[outcome.status]
