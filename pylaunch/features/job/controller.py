"""Run the parts of a job: each is a run with a thread of its own; `course` decides, this module acts."""

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.errors import ClusterNotReadyError, PylaunchError
from pylaunch.features.job import on_node
from pylaunch.features.job.course import (
    TEST_TIMEOUT_S,
    AttemptFailed,
    Course,
    CourseEvent,
    Interrupt,
    LetGo,
    PartEnded,
    PartFailing,
    PartPrepared,
    PartReleased,
    ReadinessSeen,
)
from pylaunch.features.job.job_file import ReadyTest
from pylaunch.features.job.placement import Part
from pylaunch.model.cluster import Cluster
from pylaunch.model.outcome import Outcome, Status
from pylaunch.model.run import Event, EventKind
from pylaunch.probe.ask import ask, understood_all
from pylaunch.probe.program import program
from pylaunch.render import PlannedRun
from pylaunch.runs.events import AttemptEnded, RanksReleased, StartEvent, clock_now
from pylaunch.runs.follow.run_follower import LAST_S
from pylaunch.runs.prepare.session import InterruptedBeforeReleaseError
from pylaunch.runs.start import StartOptions, begin, run
from pylaunch.transport import interrupts
from pylaunch.transport.interrupts import Interrupter
from pylaunch.verdict.rank_end import described

_LOST = re.compile(
    r"connection (refused|reset|aborted|closed)|broken pipe|remote ?disconnected|closed connection|server disconnected|"
    r"timed? ?out|no route to host|connect(ion)? ?error|max retries exceeded|service unavailable|bad gateway",
    re.IGNORECASE,
)
"""Errors of clients whose server is gone: those of the operating system, http.client, requests, aiohttp and httpx."""

TEST_EVERY_S = 1.0
LONGEST_WHY = 300

WAKES_S = 0.005
MOST_WAKES_S = 2.0
"""In which the thread of a part that is released wakes up and sends the release, and of all parts together: nodes
refuse an instant that is more than RELEASE_AHEAD_S away."""


@dataclass(frozen=True)
class PlannedPart:
    """A part with its plan, decided before any host is contacted for a run."""

    part: Part
    planned: PlannedRun
    options: StartOptions

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.planned.plan.run


@dataclass(frozen=True)
class PartOver:
    """The run of a part is over. The error ended it before its ranks ran."""

    error: PylaunchError | None = None


Show = Callable[[PlannedPart, "StartEvent | PartOver"], None]
"""Shows an event of a part; called in the thread of the part."""


def free_ports(parts: Sequence[Part]) -> dict[str, list[int]]:
    """Return free ports by address of the first hosts of roles with ports.

    Raises ClusterNotReadyError for a host that cannot be asked.
    """
    wanted = Counter(part.first.rank_address for part in parts for _ in part.role.ports)
    if not wanted:
        return {}
    hosts = {part.first.rank_address: part.first for part in reversed(parts)}
    programs = {hosts[address].name: program(on_node.print_free_ports, count) for address, count in wanted.items()}
    cluster = Cluster(tuple(hosts[address] for address in wanted), known_hosts=parts[0].cluster.known_hosts)
    answers = ask(cluster, programs)
    found, failed = understood_all(answers, cluster, lambda answer: [_port(each) for each in answer["free"]])
    if failed:
        raise ClusterNotReadyError(
            "hosts that must choose free ports cannot be asked",
            evidence=[f"{name}: {why.reason}" for name, why in failed.items()],
            hint=next((why.hint for why in failed.values() if why.hint), None),
        )
    return {address: found[hosts[address].name] for address in wanted}


def _port(value: object) -> int:
    if type(value) is int and 0 < value < 65536:
        return value
    raise ValueError(f"{value!r} is no port")


class _PartRun:
    """The thread of a part."""

    def __init__(self, planned: PlannedPart, show: Show, heard: SimpleQueue[CourseEvent]) -> None:
        self.planned = planned
        self.name = planned.part.name
        self._show = show
        self._heard = heard
        self._interrupter = Interrupter()
        self._go = threading.Event()
        self._instant = 0.0
        self.lead_s = 0.0
        """Seconds that its release needs; known when it is prepared."""

        self._stop_reason = ""
        self._interrupts = 0
        self.thread = threading.Thread(target=self._run, name=f"part {self.name}", daemon=True)

    def let_go(self, instant: float) -> None:
        """Release its ranks at this instant, in seconds since the epoch."""
        self._instant = instant
        self._go.set()

    def stop(self, reason: str, *, is_kill: bool) -> None:
        """Stop it, or kill its ranks."""
        self._stop_reason = self._stop_reason or reason
        self._go.set()
        while self._interrupts < (2 if is_kill else 1):
            self._interrupts += 1
            self._interrupter.interrupt(reason)  # The second one kills.

    def _hold(self, lead_s: float) -> float:
        """Wait before the release, until the job lets this part go. Raises InterruptedBeforeReleaseError."""
        self.lead_s = lead_s
        self._heard.put(PartPrepared(self.name))
        self._go.wait()
        self._go.clear()
        if self._stop_reason:
            raise InterruptedBeforeReleaseError(self._stop_reason)
        return self._instant

    def _run(self) -> None:
        status, reason = Status.REFUSED, "a bug in pylaunch, whose trace is printed"
        try:
            status, reason = self._through()
        finally:  # Also after a bug: the nodes end a run without controller.
            self._heard.put(PartEnded(self.name, status, reason))

    def _through(self) -> tuple[Status, str]:
        """Run the part to its end."""
        planned = self.planned.planned
        options = replace(self.planned.options, hold=self._hold)
        try:
            outcome = run(begin(planned, options, self._emit), options, self._emit, self._interrupter)
            over, status, reason = PartOver(), outcome.status, outcome.reason
        except InterruptedBeforeReleaseError as error:
            over, status, reason = PartOver(error), Status.STOPPED, error.message
        except PylaunchError as error:
            over, status, reason = PartOver(error), Status.REFUSED, error.message
        self._show(self.planned, over)
        return status, reason

    def _emit(self, event: StartEvent) -> None:
        self._show(self.planned, event)
        match event:
            case RanksReleased(start=started):
                self._heard.put(PartReleased(self.name, started.instant))
            case AttemptEnded(plan, outcome) if outcome.status is Status.FAILED:
                self._heard.put(_failure(self.name, plan.attempt, outcome))
            case Event(kind=EventKind.STOP_ASKED):
                self._heard.put(PartFailing(self.name))


def _failure(name: str, run_id: str, outcome: Outcome) -> AttemptFailed:
    end = outcome.first_failure
    if end is None:
        return AttemptFailed(name, run_id, outcome.ended_at, outcome.reason)
    lost = any(_LOST.search(line) for line in (end.error, *end.last_lines[-1:]))
    return AttemptFailed(name, run_id, end.time, f"{end.who} {described(end)}", bool(end.symptom), lost)


def lead_together_s(leads: Sequence[float]) -> float:
    """Return the seconds that the release of parts at one instant needs, each of which needs one of `leads`."""
    return max(leads) + min(WAKES_S * len(leads), MOST_WAKES_S)


def run_job(parts: Sequence[PlannedPart], show: Show, changed: Callable[[Course], None]) -> Course:
    """Run all parts to the end of the job; return its last state.

    `changed` gets each new state, in this thread, which receives signals.
    """
    heard: SimpleQueue[CourseEvent] = SimpleQueue()
    runs = {each.part.name: _PartRun(each, show, heard) for each in parts}
    course = Course({each.part.name: each.part.role for each in parts}, time.monotonic())
    testers: dict[str, threading.Thread] = {}
    signals = interrupts.received_by(lambda number: heard.put(Interrupt(interrupts.signal_words(number))), LAST_S + 1)
    with signals:  # A SimpleQueue may be written to by a signal handler.
        for each in runs.values():
            each.thread.start()
        while not course.is_over:
            actions = course.decide(time.monotonic(), clock_now())
            changed(course)
            for action in actions:
                if isinstance(action, LetGo):
                    together = [runs[name] for name in action.parts]
                    instant = clock_now() + lead_together_s([each.lead_s for each in together])
                    for each in together:
                        each.let_go(instant)
                else:
                    runs[action.part].stop(action.reason, is_kill=action.is_kill)
            for name, state in course.parts.items():
                ready = state.role.ready
                is_alive = name in testers and testers[name].is_alive()
                if state.is_tested and ready is not None and not is_alive:
                    testers[name] = _tester(runs[name].planned, ready, course, heard)
            deadline = course.deadline()
            with contextlib.suppress(Empty):
                wait_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                course.hear(heard.get(timeout=wait_s), time.monotonic(), clock_now())
        for each in runs.values():
            each.thread.join()
    changed(course)
    return course


def _tester(
    planned: PlannedPart, ready: ReadyTest, course: Course, heard: SimpleQueue[CourseEvent]
) -> threading.Thread:
    """Test the readiness of a part in a thread, until it is ready or no longer waited for."""
    name, begun, pause = planned.part.name, time.monotonic(), threading.Event()

    def work() -> None:
        while course.parts[name].is_tested:
            is_ready, why = readiness(planned, ready, time.monotonic() - begun)
            heard.put(ReadinessSeen(name, is_ready, why))
            if is_ready:
                return
            pause.wait(TEST_EVERY_S)

    thread = threading.Thread(target=work, name=f"readiness of {name}", daemon=True)
    thread.start()
    return thread


def readiness(planned: PlannedPart, ready: ReadyTest, age_s: float) -> tuple[bool, str]:
    """Return whether a part is ready, and what was seen: a test on its first host, `age_s` after its release."""
    part, host = planned.part, planned.part.first
    port = part.ports.get(ready.target) or int(ready.target)
    script = program(on_node.print_readiness, port, ready.path, host.rank_address, planned.run, age_s)
    cluster = replace(part.cluster, hosts=(host,))
    answers = ask(cluster, {host.name: script}, TEST_TIMEOUT_S)
    found, failed = understood_all(
        answers, cluster, lambda answer: (answer["ready"] is True, str(answer["why"])[:LONGEST_WHY])
    )
    return found[host.name] if host.name in found else (False, f"{host.name}: {failed[host.name].reason}")
