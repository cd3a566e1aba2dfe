"""Exercise one drill: start its run, inject its fault, wait for the verdict, look for what remains.

The run is an ordinary start: nothing in it knows that it is a drill.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab.drill.catalogue import BASIC, Drill, Effect, Library
from lab.drill.node_faults import STALLED, NodeFaultInjector
from lab.drill.score import DrillScore, Observed, score
from lab.lab import Lab
from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.checks.occupancy.clean import clean_hosts
from pylaunch.errors import ClusterNotReadyError, LabError, PylaunchError
from pylaunch.model.cluster import Cluster
from pylaunch.model.job import TREE, USUAL_PORT, Framework, JobSpec, OnHang, Sync
from pylaunch.model.outcome import Named, Outcome
from pylaunch.model.plan import RunPlan
from pylaunch.model.run import Event
from pylaunch.render import plan_start
from pylaunch.runs.events import AttemptEnded, LinesWritten, StartEvent
from pylaunch.runs.start import StartOptions, start
from pylaunch.runs.stop import stop_run
from pylaunch.runs.sync.tree import Tree, read_tree
from pylaunch.store import runs
from pylaunch.transport.interrupts import Interrupter, InterruptSource

SHIPPED, NOT_SHIPPED = Path(__file__).parent, ("/*.py",)
MODULE = ("-m", "ranks.drill_rank")
READY, FAULT = "drill: ready", "drill: fault"
DEADLINE_S = {Effect.ENDS: 150.0, Effect.HANGS: 180.0, Effect.NONE: 240.0}
"""After this, the drill stops its run and counts as not detected."""

FRAMEWORKS = {
    Library.PLAIN: Framework.DIRECT,
    Library.TORCH: Framework.DIRECT,
    Library.JAX: Framework.JAX,
    Library.ACCELERATE: Framework.ACCELERATE,
    Library.DEEPSPEED: Framework.DEEPSPEED,
}

ON_CPUS = {Library.JAX: {"JAX_PLATFORMS": "cpu"}, Library.ACCELERATE: {"ACCELERATE_USE_CPU": "true"}}
"""Variables without which a library would use devices, which drills leave to other runs."""


@dataclass(frozen=True)
class Ground:
    """Cluster on which drills run."""

    cluster: Cluster
    lab: Lab | None = None
    """None for a real cluster: faults of nodes cannot be injected."""

    framework: Framework | None = None
    """Framework that starts the ranks of torch; None is `FRAMEWORKS`."""

    python: str | None = None
    seed: int = 0


def exercise(drill: Drill, ground: Ground, interrupts: InterruptSource) -> DrillScore:
    """Exercise `drill` and return its score. Raises ClusterNotReadyError where no run can be started.

    An interrupt of a person ends the run, then raises KeyboardInterrupt.
    """
    tree = read_tree(SHIPPED, NOT_SHIPPED)
    ground = replace(ground, cluster=ground.cluster.without_devices())
    first = plan_start(ground.cluster, _job(drill, ground, tree, 0), runs.new_run_id(), lambda event: None).plan
    guilty = _guilty(drill, first, random.Random(f"{ground.seed} {drill.name}"))
    job = _job(drill, ground, tree, guilty.rank or 0)
    planned = plan_start(ground.cluster, job, runs.new_run_id(), lambda event: None)
    injector = _injector(drill, ground, guilty)
    observer = _Observer(planned.plan, injector)
    with observer.deadline(DEADLINE_S[drill.effect]), _around(injector):
        outcome = start(planned, StartOptions(tree=tree), observer.take, observer.interrupts(interrupts))
    if observer.interrupted_by:
        raise KeyboardInterrupt(observer.interrupted_by)
    observer.raise_failed_injection()
    observed = Observed(
        None if outcome.by_hand else outcome, guilty, tuple(observer.events), observer.fault_at, observer.verdict_at,
        _leftovers(outcome, planned.plan),
    )  # fmt: skip
    return score(drill, observed)


def _job(drill: Drill, ground: Ground, tree: Tree, guilty: int) -> JobSpec:
    manifest = tree.manifest
    library = drill.library
    framework = ground.framework if library is Library.TORCH and ground.framework is not None else FRAMEWORKS[library]
    job = JobSpec(
        (*MODULE, library.value, drill.action, str(guilty), STALLED),
        framework,
        TREE,
        sync=Sync(str(tree.directory), manifest.digest, len(manifest.files), manifest.size, NOT_SHIPPED),
        python=ground.python,
        ranks_per_node=1,
        on_hang=OnHang.STOP,
    )
    return replace(job, env=ON_CPUS.get(library, {}))


def _guilty(drill: Drill, plan: RunPlan, chance: random.Random) -> Named:
    places = [Named(node.host.name, rank.rank) for node in plan.nodes for rank in node.ranks]
    if drill.rank is not None:
        return places[drill.rank]
    return chance.choice(places[1:] or places)


def _injector(drill: Drill, ground: Ground, guilty: Named) -> NodeFaultInjector | None:
    if drill.node_fault is None:
        return None
    assert ground.lab is not None
    return NodeFaultInjector(drill.node_fault, ground.lab[guilty.host])


def _around(injector: NodeFaultInjector | None) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if injector is None else injector.around()


def _leftovers(outcome: Outcome, plan: RunPlan) -> dict[str, tuple[str, ...]]:
    """Return what the nodes of an ended run still have, by host; asks them all, with the probe of `pylaunch clean`.

    A node that could not prove that it is clean, because it was off or cut off, is first asked again to stop.
    """
    if outcome.unproven:
        outcome = stop_run(runs.read(plan.run), lambda event: None, now=True).outcome
    found: dict[str, list[str]] = {host: list(lines) for host, lines in outcome.leftovers.items() if lines}
    for host in outcome.unproven:
        found.setdefault(host, []).append("not proven clean")
    port = plan.job.rendezvous_port or USUAL_PORT
    report = clean_hosts(plan.cluster, port, dry_run=True)
    for host, occupants in report.stale.items():
        found.setdefault(host, []).extend(f"{each.pid} {each.command}" for each in occupants)
    return {host: tuple(lines) for host, lines in found.items()}


@dataclass
class _Observer:
    """Receives the events of a run; injects the fault of a node when all ranks are ready."""

    plan: RunPlan
    injector: NodeFaultInjector | None
    events: list[Event] = field(default_factory=list)
    fault_at: float | None = None
    verdict_at: float | None = None
    ready: int = 0
    failed: list[PylaunchError] = field(default_factory=list)
    interrupter: Interrupter = field(default_factory=Interrupter)
    injecting: threading.Thread | None = None
    interrupted_by: str = ""
    """Interrupt of a person."""

    def take(self, event: StartEvent) -> None:
        """Receive an event; an `Emit`."""
        if isinstance(event, LinesWritten):
            lines = event.text.splitlines()
            self.ready += lines.count(READY)
            if FAULT in lines and self.injector is None:
                self.fault_at = event.time
            if READY in lines and self.ready == self.plan.world_size and self.injector is not None:
                self.injecting = threading.Thread(target=self._inject, args=(self.injector,), name="drill")
                self.injecting.start()
        elif isinstance(event, Event):
            self.events.append(event)
        elif isinstance(event, AttemptEnded):
            self.verdict_at = time.time()

    def _inject(self, injector: NodeFaultInjector) -> None:
        self.fault_at = time.time()
        try:
            injector.ready(self.plan.run)
        except PylaunchError as error:
            self.failed.append(error)
            self.interrupter.interrupt(f"drill: the fault could not be injected: {error}")

    def raise_failed_injection(self) -> None:
        """Raise the error of an injection that failed."""
        if self.injecting is not None:
            self.injecting.join()
        if self.failed:
            raise self.failed[0]

    @contextlib.contextmanager
    def deadline(self, seconds: float) -> Iterator[None]:
        """Interrupt the run when the block takes longer."""
        timer = threading.Timer(seconds, self.interrupter.interrupt, (f"drill: not over within {seconds:.0f} s",))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def interrupts(self, others: InterruptSource) -> InterruptSource:
        """Return a source that delivers the interrupts of the drill and `others`, which are those of a person."""

        @contextlib.contextmanager
        def both(receiver: Callable[[str], object], last_s: float) -> Iterator[None]:
            def of_person(reason: str) -> None:
                self.interrupted_by = reason
                receiver(reason)

            with others(of_person, last_s), self.interrupter(receiver, last_s):
                yield

        return both


def exercise_all(
    drills: Sequence[Drill],
    ground: Ground,
    interrupts: InterruptSource,
    report: "Callable[[DrillScore | SkippedDrill], None]",
) -> "tuple[DrillScore | SkippedDrill, ...]":
    """Exercise `drills` in order and `report` each.

    A drill whose run cannot be started is skipped, and where a library's healthy run fails, so are its others.
    """
    done: list[DrillScore | SkippedDrill] = []
    broken: dict[Library, str] = {}
    for drill in drills:
        done.append(_exercised(drill, ground, interrupts, broken.get(drill.library, "")))
        if drill.action == BASIC and (reason := _why_broken(done[-1])):
            broken[drill.library] = f"its healthy run did not succeed: {reason}"
        report(done[-1])
    return tuple(done)


def _exercised(drill: Drill, ground: Ground, interrupts: InterruptSource, broken: str) -> "DrillScore | SkippedDrill":
    if broken:
        return SkippedDrill(drill, broken)
    try:
        return exercise(drill, ground, interrupts)
    except (ClusterNotReadyError, LabError) as error:
        return SkippedDrill(drill, str(error))


def _why_broken(done: "DrillScore | SkippedDrill") -> str:
    if isinstance(done, SkippedDrill) or not done.is_detected:
        return done.reason
    return ""


@dataclass(frozen=True)
class SkippedDrill:
    """Drill that could not be exercised."""

    drill: Drill
    reason: str
