"""Trial of a start: a job of one rank on each host, which meet at a barrier and sum numbers. It uses no device.

Ranks run `pylaunch.runtime.communication_test` and print a line at the end of each stage. A layer holds if every rank
printed the line of its stage. All ranks met, too, if the rank that failed has printed it: its failure may stop another
rank before that prints the line.
"""

from collections.abc import Iterator
from datetime import timedelta
from enum import Enum

from pylaunch.base.dataclass import dataclass, field
from pylaunch.errors import PylaunchError
from pylaunch.model.cluster import Cluster
from pylaunch.model.hostset import fold
from pylaunch.model.job import Framework, JobSpec
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import ignore
from pylaunch.model.setting import Judge
from pylaunch.model.text.argv import quoted
from pylaunch.runs.connect.interruptible import Interrupter, InterruptSource, TimeLimit
from pylaunch.runs.events import LinesWritten, RunBegun, StartEvent
from pylaunch.runs.planned import plan_start
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError, NodesRefusedError
from pylaunch.runs.start import StartOptions, start
from pylaunch.runtime import communication_test

START_TIMEOUT = timedelta(seconds=60)
LIMIT_S = 300.0
"""For the whole job: longer than all limits of its stages together. It ends ranks that cannot end on their own."""

COMMAND = ("-m", "pylaunch.runtime.communication_test")


class TrialState(Enum):
    """Result of a layer."""

    OK = "ok"
    BROKEN = "broken"
    SKIPPED = "skipped"
    """It could not be measured."""


@dataclass(frozen=True)
class TrialLayer:
    """A layer that the trial proves: agent, barrier, framework import, all-reduce."""

    name: str
    state: TrialState
    text: str
    hosts: tuple[str, ...] = ()
    """Hosts on which it is broken."""

    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


AGENT, BARRIER, FRAMEWORK, ALL_REDUCE = "agent", "barrier", "framework import", "all-reduce"


def trial_job(cluster: Cluster, python: str | None) -> JobSpec:
    """Return the job: one rank on each host, two on a single one."""
    return JobSpec(
        command=COMMAND,
        framework=Framework.DIRECT,
        workdir="/",
        ranks_per_node=1 if len(cluster.hosts) > 1 else 2,
        python=python,
        start_timeout=START_TIMEOUT,
    )


@dataclass
class Trial:
    """The job, and the lines of its ranks."""

    hosts: tuple[str, ...]
    run: str = ""
    """Id of the run; "" before it has begun."""

    python: str = ""
    """Interpreter of the ranks on the first host."""

    stages: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Stage → host and stream of each rank that reported it."""

    def layers(
        self, cluster: Cluster, python: str | None, judge: Judge, interrupts: InterruptSource | None = None
    ) -> Iterator[TrialLayer]:
        """Run the job and yield its layers up to a broken one. Raises InterruptedBeforeReleaseError on an interrupt."""
        limit = TimeLimit(LIMIT_S, "the trial", Interrupter() if interrupts is None else interrupts)
        try:
            planned = plan_start(cluster.without_devices(), trial_job(cluster, python), judge, ignore)
            outcome = start(planned, StartOptions(), self.take, limit.interrupts)
        except InterruptedBeforeReleaseError:
            raise
        except PylaunchError as error:
            hosts = tuple(error.reasons) if isinstance(error, NodesRefusedError) else ()
            hints = (error.hint,) if error.hint else ()
            yield TrialLayer(AGENT, TrialState.BROKEN, error.message, hosts, tuple(error.evidence), hints)
            return
        if outcome.status is Status.STOPPED and not limit.is_over:
            raise InterruptedBeforeReleaseError(f"{outcome.reason}: the trial is stopped")
        if outcome.status is Status.REFUSED:
            hints = (outcome.hint,) if outcome.hint else ()
            yield TrialLayer(
                AGENT, TrialState.BROKEN, outcome.reason, tuple(outcome.refusals), outcome.evidence, hints
            )  # fmt: skip
            return
        yield _ok(AGENT, "started on every host, prepared and released a job")
        yield from self.judged(outcome)

    def judged(self, outcome: Outcome) -> Iterator[TrialLayer]:
        """Yield the layers that the stages of the job prove, up to the first that is broken."""
        count = max(2, len(self.hosts))
        if not self._met(count, outcome):
            yield self._failed(BARRIER, communication_test.BARRIER, outcome)
            return
        yield _ok(BARRIER, f"{count} ranks met at rank 0")
        if outcome.status is Status.DONE and len(self.stages.get(communication_test.NO_FRAMEWORK, ())) >= count:
            for layer in (FRAMEWORK, ALL_REDUCE):
                yield TrialLayer(layer, TrialState.SKIPPED, "neither torch nor jax is installed for the ranks")
            return
        if len(self._reported(communication_test.IMPORT)) < count:
            yield self._failed(FRAMEWORK, communication_test.IMPORT, outcome)
            return
        yield _ok(FRAMEWORK, ", ".join(self._imported()))
        if len(self._reported(communication_test.ALL_REDUCE)) < count or outcome.status is not Status.DONE:
            yield self._failed(ALL_REDUCE, communication_test.ALL_REDUCE, outcome)
            return
        yield _ok(ALL_REDUCE, f"correct sum on {count} ranks")

    def _met(self, count: int, outcome: Outcome) -> bool:
        """Return True if all ranks met at rank 0, as each of them learns there."""
        met, failed = self._reported(communication_test.BARRIER), outcome.named
        return len(met) >= count or (failed is not None and (failed.host, f"{failed.rank}.out") in met)

    def _reported(self, stage: str) -> set[tuple[str, str]]:
        """Return the ranks that reported `stage`, with any framework."""
        return {rank for each, ranks in self.stages.items() if each.split(" ")[0] == stage for rank in ranks}

    def _imported(self) -> list[str]:
        """Return each framework that a rank imported, with its version."""
        prefix = f"{communication_test.IMPORT} "
        return [stage.removeprefix(prefix) for stage in self.stages if stage.startswith(prefix)]

    def _failed(self, layer: str, stage: str, outcome: Outcome) -> TrialLayer:
        """Return a broken layer with the verdict on the job; skipped if the ranks ended well without its line."""
        if outcome.status is Status.DONE:
            return TrialLayer(layer, TrialState.SKIPPED, "could not be measured: output of the ranks is missing")
        first = outcome.first_failure
        done = {host for host, _ in self._reported(stage)}
        late = [host for host in self.hosts if host not in done]
        progress = [f"reported by {fold(sorted(done))}, not by {fold(late)}"] if done and late else []
        hosts: tuple[str, ...] = (outcome.named.host,) if outcome.named is not None else ()
        if not hosts and layer == FRAMEWORK and done:
            hosts = tuple(late)  # No rank waits for another one while it imports.
        hint = outcome.hint or next((cause.hint for cause in outcome.causes[:1]), "")
        return TrialLayer(
            layer,
            TrialState.BROKEN,
            outcome.reason,
            hosts,
            (*progress, *outcome.evidence, *(first.last_lines if first is not None else ())),
            tuple(each for each in (hint, *self._next_steps(layer, hosts)) if each),
        )

    def _next_steps(self, layer: str, hosts: tuple[str, ...]) -> tuple[str, ...]:
        output = f"output of all ranks: pylaunch logs {self.run}"
        if layer != FRAMEWORK or not self.python:
            return (output,)
        where = fold(hosts) if hosts else "each host"
        names = {each.split(" ")[0] for each in self._imported()}
        framework = "jax" if names == {"jax"} else "torch"
        return (f"repeat it on {where}: {quoted((self.python, '-c', f'import {framework}'))}", output)

    def take(self, event: StartEvent) -> None:
        """Keep the id of the run, and the stages that its ranks report."""
        if isinstance(event, RunBegun):
            self.run = event.plan.run
            self.python = event.plan.job.python or event.plan.nodes[0].host.rank_python
        if isinstance(event, LinesWritten):
            for line in event.text.splitlines():
                head, _, stage = line.partition(f"{communication_test.STAGE} ")
                if not head and stage:
                    self.stages.setdefault(stage, set()).add((event.host, event.stream))


def _ok(name: str, text: str) -> TrialLayer:
    return TrialLayer(name, TrialState.OK, text)
