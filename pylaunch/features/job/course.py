"""The course of a job: which parts may start, which must stop, how the job ended. No I/O; clocks are passed in."""

from collections.abc import Iterable, Mapping
from enum import Enum

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.features.job.job_file import JobRole
from pylaunch.model.outcome import Status

TOGETHER_S = 0.2
"""Failures of two parts within this time have no order: the clocks of nodes are corrected to milliseconds, and a rank
needs a moment to end."""

TEST_TIMEOUT_S = 20.0
"""Time for one readiness test."""

RELATED_S = 60.0
"""A failure of another part that came this long before the one that ended the job may be its cause."""


class Phase(Enum):
    """Phase of a part."""

    PREPARING = "preparing"
    """Its nodes prepare, for the first time or for a restart."""

    PREPARED = "prepared"
    """Its nodes are ready, and its ranks wait for the release."""

    STARTING = "starting"
    RUNNING = "running"
    READY = "ready"
    ENDED = "ended"


@dataclass(frozen=True)
class PartState:
    """State of a part."""

    role: JobRole
    phase: Phase = Phase.PREPARING
    since: float = 0.0
    """Time of the phase, monotonic."""

    has_started: bool = False
    """Ranks of it have run."""

    released_at: float | None = None
    """Instant of its last release, in seconds since the epoch."""

    last_test: str = ""
    """Result of the last readiness test."""

    status: Status | None = None
    reason: str = ""
    is_stopping: bool = False
    """The job has stopped it."""

    @property
    def is_live(self) -> bool:
        """It has not ended."""
        return self.phase is not Phase.ENDED

    @property
    def is_tested(self) -> bool:
        """Its ranks run, and its readiness is not known yet."""
        return self.phase is Phase.RUNNING and self.role.ready is not None and not self.is_stopping

    @property
    def tested_until(self) -> float:
        """Monotonic time at which it has taken too long; the first test is awaited, and its result is the reason."""
        is_untested = self.role.ready is not None and not self.last_test
        return self.since + max(self.role.ready_timeout, TEST_TIMEOUT_S + 1.0 if is_untested else 0.0)


@dataclass(frozen=True)
class PartPrepared:
    """All nodes of a part are ready."""

    part: str


@dataclass(frozen=True)
class PartReleased:
    """The ranks of a part run."""

    part: str
    at: float
    """Instant of the release, in seconds since the epoch: the same for all parts that start together."""


@dataclass(frozen=True)
class PartFailing:
    """A rank of a part has failed: its attempt ends, and another one may follow."""

    part: str


@dataclass(frozen=True)
class ReadinessSeen:
    """Result of a readiness test."""

    part: str
    is_ready: bool
    why: str


@dataclass(frozen=True)
class AttemptFailed:
    """An attempt of a part failed; another one may follow."""

    part: str
    run: str
    at: float
    """Seconds since the epoch, on the controller's clock."""

    text: str
    is_symptom: bool = False
    """Its output shows only that it lost another rank."""

    lost_connection: bool = False
    """Its error is a connection that failed: to a part that it uses, if that one failed, too."""


@dataclass(frozen=True)
class PartEnded:
    """The run of a part is over."""

    part: str
    status: Status
    reason: str


@dataclass(frozen=True)
class Interrupt:
    """A person stops the job, or kills the ranks of one that ends already."""

    reason: str


CourseEvent = PartPrepared | PartReleased | PartFailing | ReadinessSeen | AttemptFailed | PartEnded | Interrupt


@dataclass(frozen=True)
class LetGo:
    """Release the ranks of these parts."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class StopPart:
    """Stop a part."""

    part: str
    reason: str
    is_kill: bool = False
    """Its ranks get SIGKILL."""


@dataclass(frozen=True)
class Ending:
    """Why the job ends."""

    status: Status
    reason: str
    part: str = ""
    """Part that ends it; "" for a person and for a job that is done."""

    detail: str = ""
    """Result of the last readiness test."""

    at: float = 0.0
    """Seconds since the epoch."""


def users_of(roles: Iterable[JobRole]) -> dict[str, frozenset[str]]:
    """Return the roles that end before each role: those that come after it, and before a service all that are none.

    A service that itself comes after a role that is none may use it, so it waits only for those that come after it.
    """
    known = {role.name: role for role in roles}

    def uses(name: str) -> set[str]:
        return {each for other in known[name].after for each in (other, *uses(other))}

    used = {name: uses(name) for name in known}
    users = {name: {other for other in known if name in used[other]} for name in known}
    mortal = {name for name, role in known.items() if not role.service}
    for name in known.keys() - mortal:
        if not used[name] & mortal:
            users[name] |= mortal
    return {name: frozenset(found) for name, found in users.items()}


def stop_order(roles: Iterable[JobRole]) -> dict[str, int]:
    """Return a number for each role: one with a smaller number stops first."""
    users = users_of(roles)

    def depth(name: str) -> int:
        return max((depth(other) + 1 for other in users[name]), default=0)

    return {name: depth(name) for name in users}


class Course:
    """State of a job."""

    def __init__(self, roles: Mapping[str, JobRole], now: float) -> None:
        """`roles` are the roles of the parts by name of the part; `now` is monotonic."""
        self.parts = {name: PartState(role, since=now) for name, role in roles.items()}
        self._users = users_of({role.name: role for role in roles.values()}.values())
        self.failures: list[AttemptFailed] = []
        self.ending: Ending | None = None
        self._is_killed = False
        self._killed: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Every part has ended."""
        return not any(part.is_live for part in self.parts.values())

    def hear(self, event: CourseEvent, now: float, wall: float) -> None:
        """Note `event`; `now` is monotonic, `wall` in seconds since the epoch."""
        match event:
            case Interrupt():
                self._is_killed = self.ending is not None
                self.ending = self.ending or Ending(Status.STOPPED, event.reason, at=wall)
            case AttemptFailed():
                self.failures.append(event)
            case PartPrepared():
                self._enter(event.part, Phase.PREPARED, now)
            case PartFailing() if self.parts[event.part].phase in (Phase.STARTING, Phase.RUNNING, Phase.READY):
                self._enter(event.part, Phase.PREPARING, now)
            case PartReleased() if self.parts[event.part].phase is Phase.STARTING:
                self.parts[event.part] = replace(self.parts[event.part], released_at=event.at)
                has_test = self.parts[event.part].role.ready is not None
                self._enter(event.part, Phase.RUNNING if has_test else Phase.READY, now)
            case ReadinessSeen() if self.parts[event.part].is_tested:
                self.parts[event.part] = replace(self.parts[event.part], last_test=event.why)
                if event.is_ready:
                    self._enter(event.part, Phase.READY, now)
            case PartEnded():
                before = self.parts[event.part]
                self.parts[event.part] = replace(before, status=event.status, reason=event.reason)
                self._enter(event.part, Phase.ENDED, now)
                self.ending = self.ending or self._ending_by(event, before.role, wall)

    def decide(self, now: float, wall: float) -> list[LetGo | StopPart]:
        """Return what is to be done now, and note it as done."""
        self.ending = self.ending or self._ending_by_time(now, wall) or self._ending_by_absence(wall)
        if self.ending is None:
            free = tuple(filter(self._may_go, self.parts))
            for name in free:
                self._enter(name, Phase.STARTING, now)
                self.parts[name] = replace(self.parts[name], has_started=True)
            return [LetGo(free)] if free else []
        stop = [name for name in self.parts if self._must_stop(name)]
        for name in stop:
            self.parts[name] = replace(self.parts[name], is_stopping=True)
        kill: list[str] = []
        if self._is_killed:
            kill = [name for name, part in self.parts.items() if part.is_live and name not in self._killed]
            self._killed.update(kill)
        reason = self.ending.reason
        return [*(StopPart(name, reason) for name in stop), *(StopPart(name, reason, is_kill=True) for name in kill)]

    def deadline(self) -> float | None:
        """Return the monotonic time at which `decide` may have something to do without an event."""
        return min((part.tested_until for part in self.parts.values() if part.is_tested), default=None)

    def first_failures(self) -> tuple[AttemptFailed, ...]:
        """Return the failure that came first, or several without an order; () for a job that no failure ended.

        A part that shows only the loss of another one is none, unless there is nothing else.
        """
        related = self.related_failures()
        own = [each for each in related if not each.is_symptom and not self._lost_another(each, related)] or related
        return tuple(each for each in own if each.at <= own[0].at + TOGETHER_S)

    def related_failures(self) -> tuple[AttemptFailed, ...]:
        """Return the failures of the minute before the one that ended the job, and those that had no order to it."""
        ending = self.ending
        if ending is None or not ending.part:
            return ()
        before = sorted((each for each in self.failures if each.at <= ending.at), key=lambda each: each.at)
        last = max((each.at for each in before if each.part == ending.part), default=ending.at)
        return tuple(each for each in before if each.at >= last - RELATED_S)

    def _lost_another(self, failure: AttemptFailed, failures: Iterable[AttemptFailed]) -> bool:
        used = self.parts[failure.part].role.after
        return failure.lost_connection and any(self.parts[each.part].role.name in used for each in failures)

    def _enter(self, name: str, phase: Phase, now: float) -> None:
        self.parts[name] = replace(self.parts[name], phase=phase, since=now)

    def _may_go(self, name: str) -> bool:
        part = self.parts[name]
        others = self.parts.values()
        return (
            part.phase is Phase.PREPARED
            and not any(other.phase is Phase.PREPARING and not other.has_started for other in others)
            and all(other.phase is Phase.READY for other in self._live() if other.role.name in part.role.after)
        )

    def _must_stop(self, name: str) -> bool:
        """Return True for a part of a job that ends, once those are over that use it."""
        part = self.parts[name]
        if not part.is_live or part.is_stopping:
            return False
        if part.phase in (Phase.PREPARING, Phase.PREPARED):
            return True
        return not any(other.role.name in self._users[part.role.name] for other in self._live())

    def _ending_by(self, event: PartEnded, role: JobRole, wall: float) -> Ending | None:
        """Return why the job ends because a part has ended; None if it continues."""
        part = event.part
        if event.status is Status.DONE and not role.service:
            return self._done(wall)
        if event.status is Status.STOPPED:
            return Ending(Status.STOPPED, f"{part} was stopped", part, event.reason, wall)
        if event.status is Status.REFUSED and not self.parts[part].has_started:
            return Ending(Status.REFUSED, f"{part} was not started", part, event.reason, wall)
        reason = f"{part} ended, and it is a service" if event.status is Status.DONE else f"{part} failed"
        detail = event.reason if event.status is Status.REFUSED else ""
        return Ending(Status.FAILED, reason, part, detail, wall)

    def _done(self, wall: float) -> Ending | None:
        """Return the end of a job whose roles have ended, services apart."""
        if any(not part.role.service for part in self._live()):
            return None
        ended = ", ".join(name for name, part in self.parts.items() if not part.role.service)
        return Ending(Status.DONE, f"{ended} done", at=wall)

    def _ending_by_time(self, now: float, wall: float) -> Ending | None:
        for name, part in self.parts.items():
            if part.is_tested and part.role.ready is not None and now >= part.tested_until:
                reason = f"{name} was not ready ({part.role.ready.words}) within {part.role.ready_timeout:g} s"
                return Ending(Status.FAILED, reason, name, part.last_test, wall)
        return None

    def _ending_by_absence(self, wall: float) -> Ending | None:
        """Return the end of a job in which a part waits for a role whose parts have all ended."""
        live = {part.role.name for part in self._live()}
        for name, part in self.parts.items():
            gone = [role for role in part.role.after if role not in live]
            if part.phase is Phase.PREPARED and gone:
                last = next(each for each, other in self.parts.items() if other.role.name == gone[0])
                return Ending(Status.FAILED, f"{name} waits for {gone[0]}, which has ended", last, at=wall)
        return None

    def _live(self) -> Iterable[PartState]:
        return (part for part in self.parts.values() if part.is_live)
