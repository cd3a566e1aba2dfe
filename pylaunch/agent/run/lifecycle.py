"""Lifecycle of one run on one node, as pure functions: from a state, an event and the time to a new state and actions.

    prepared ─► running ─► stopping
                   └──────────┴────► over

A node stops its part when a rank or the launcher fails, and on request. After a rank fails because of another rank, the
node waits HOLD_S before it stops, so that the other ranks end on their own: the cause often shows later than its
effects, and a rank that was stopped cannot be distinguished from a victim. At the first failure the other ranks are
examined, for at most EXAMINE_S; ranks get no signal before that, and none within SETTLE_S, in which ranks that fail
alike, or on their own at the same moment, end on their own. To stop is: SIGTERM to the ranks, SIGTERM to the
launcher when no rank is left, and from the deadline on SIGKILL to every process of the run until none is left.
"""

from __future__ import annotations

from typing import Union

from pylaunch.base.dataclass import dataclass, replace

HOLD_S = 2.0
"""Longer than the time between the timeouts of ranks in the same collective, and than Python takes to exit."""

EXAMINE_S = 0.5
"""Longest delay of SIGTERM for the views of the ranks, which usually takes a few milliseconds."""

SETTLE_S = 0.3
"""Between the first failure and SIGTERM: Python takes this long from an exception to its exit on a busy node, and ranks
reach the line on which all of them fail at slightly different times."""

YOUNG_S = 60.0
"""Age of a run up to which ranks are further apart: they import for as long as the node is busy."""

YOUNG_SHARE, MOST_SETTLE_S = 0.2, 2.0
"""Share of the age of such a run that replaces SETTLE_S, and its limit."""

FAILING_S = 3.0
"""The same for ranks whose last line is an exception: libraries take this long from there to the exit."""

LOOK_S = 0.1
"""Between two looks at the last lines of ranks."""

KILL_S = 5.0
"""Seconds for which SIGKILL is repeated, before surviving processes are reported as leftovers."""


@dataclass(frozen=True)
class ExamineRanks:
    """Take a view of every rank that runs, within EXAMINE_S, and report it with `examined`."""


@dataclass(frozen=True)
class Terminate:
    """Send SIGTERM to the processes of these ranks, not to their children; None is the launcher, without ranks."""

    ranks: frozenset[int | None]


@dataclass(frozen=True)
class KillEverything:
    """Send SIGKILL to every process of the run."""


@dataclass(frozen=True)
class Announce:
    """Report that the run is being stopped, the reason, and whether a person requested it."""

    reason: str
    by_hand: bool = False


Action = Union[ExamineRanks, Terminate, KillEverything, Announce]


@dataclass(frozen=True)
class Life:
    """State of a run on this node."""

    expected: frozenset[int]
    has_launcher: bool
    grace_s: float
    """Seconds between SIGTERM and SIGKILL of a stop because of a failure."""

    phase: str = "prepared"
    running: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    launcher_running: bool = False
    launcher_terminated: bool = False
    by_hand: bool = False
    """A person requested the stop."""

    released_at: float = 0.0
    kill_at: float | None = None
    hold_until: float | None = None
    """Time until which the other ranks may end on their own, after one failed because of another."""

    held_reason: str = ""
    examine_until: float | None = None
    """Time until which views of the ranks are awaited; None if they are not, or not any more."""

    settle_until: float = 0.0
    """Time until which ranks may end on their own after the first failure."""

    is_examined: bool = False
    """Views of the ranks were taken, or are not wanted: once in a run."""

    @property
    def is_held(self) -> bool:
        return self.phase == "running" and self.hold_until is not None

    @property
    def is_stopping(self) -> bool:
        return self.phase == "stopping"

    @property
    def awaits_settling(self) -> bool:
        """True while a stop waits for views of the ranks, or for ranks that fail on their own."""
        return self.is_stopping and self.examine_until is not None

    @property
    def is_over(self) -> bool:
        """True when no process of the run is left to wait for."""
        if self.phase not in ("running", "stopping") or self.running or self.launcher_running or self.is_held:
            return False
        return self.has_launcher or self.ended >= self.expected

    def has_given_up(self, now: float) -> bool:
        """Return whether SIGKILL has been repeated for KILL_S."""
        return self.kill_at is not None and now > self.kill_at + KILL_S


def released(life: Life, now: float) -> Life:
    """Apply the release: the launcher runs, or all ranks do."""
    running = frozenset() if life.has_launcher else life.expected
    return replace(life, phase="running", running=running, launcher_running=life.has_launcher, released_at=now)


def aborted(life: Life) -> Life:
    """Apply an end before the release: nothing of the run is started any more, and its container may still end."""
    return replace(life, phase="stopping")


def rank_started(life: Life, rank: int) -> tuple[Life, list[Action]]:
    """Apply the start of `rank` by a launcher; a rank that starts while the node stops is terminated."""
    after = replace(life, running=life.running | {rank}, ended=life.ended - {rank})
    return after, [Terminate(frozenset({rank}))] if life.is_stopping else []


def ended(
    life: Life, rank: int | None, failure: str | None, now: float, *, is_victim: bool = False
) -> tuple[Life, list[Action]]:
    """Apply the end of `rank`, None for the launcher; `failure` describes it unless it ended well.

    `is_victim`: it failed because of another rank or node, so that the others are held. A launcher stops the ranks that
    it left, and its failure after that of a rank adds nothing.
    """
    if rank is not None:
        after = replace(life, running=life.running - {rank}, ended=life.ended | {rank})
    else:
        after = replace(life, launcher_running=False)
        failure = failure or ("the launcher ended before its ranks" if after.running else None)
    if failure is None or life.is_stopping or (rank is None and life.is_held):
        return _launcher_next(after)
    if not is_victim:
        return stop(after, failure, now, life.grace_s)
    return _examine(after if life.is_held else replace(after, hold_until=now + HOLD_S, held_reason=failure), now)


def stop(life: Life, reason: str, now: float, grace_s: float, *, by_hand: bool = False) -> tuple[Life, list[Action]]:
    """Stop the run. A later stop can only shorten the grace; the first one that a person requests is announced.

    Ranks are examined before SIGTERM, unless a person requests the stop.
    """
    deadline = now + grace_s
    if life.kill_at is not None:
        actions: list[Action] = [Announce(reason, by_hand=True)] if by_hand and not life.by_hand else []
        after = replace(life, kill_at=min(life.kill_at, deadline), by_hand=life.by_hand or by_hand)
        after, more = examined(replace(after, settle_until=now), now) if by_hand else (after, [])
        return after, actions + more
    after = replace(life, phase="stopping", kill_at=deadline, hold_until=None, by_hand=by_hand)
    if by_hand:
        after = replace(after, examine_until=None, is_examined=True)
    elif not life.is_held and life.running:
        age_s = now - life.released_at
        settle_s = max(SETTLE_S, min(MOST_SETTLE_S, age_s * YOUNG_SHARE)) if age_s < YOUNG_S else SETTLE_S
        after = replace(after, settle_until=now + settle_s, kill_at=deadline + settle_s - SETTLE_S)
    after, more = _examine(after, now)
    if after.examine_until is None:
        after, more = _settled(after, now)
    return after, [Announce(reason, by_hand), *more]


def examined(life: Life, now: float, *, is_failing: bool = False) -> tuple[Life, list[Action]]:
    """Apply the arrival of the views: a stop that waited for them continues once the ranks have settled.

    `is_failing`: the last line of a rank is an exception, and it has not ended yet.
    """
    if life.examine_until is None:
        return life, []
    after = replace(life, examine_until=None, is_examined=True)
    return _settled(after, now, is_failing=is_failing) if after.is_stopping else (after, [])


def _settled(life: Life, now: float, *, is_failing: bool = False) -> tuple[Life, list[Action]]:
    """Terminate the ranks, or wait until they have settled. What a failing rank takes delays SIGKILL, too."""
    if now < life.settle_until:
        return replace(life, examine_until=life.settle_until), []
    if is_failing and life.kill_at is not None and now < life.settle_until + FAILING_S:
        return replace(life, examine_until=now + LOOK_S, kill_at=life.kill_at + LOOK_S), []
    return _terminate(life)


def examination_begun(life: Life, now: float) -> Life:
    """Apply the request for the views: what was done since the failure, as the announcement, takes none of the time."""
    return replace(life, examine_until=now + EXAMINE_S)


def tick(life: Life, now: float, *, is_failing: bool = False) -> tuple[Life, list[Action]]:
    """Apply what is due at `now`: the end of a hold, of the time for views, of the grace period."""
    actions: list[Action] = []
    if life.is_held and life.hold_until is not None and now >= life.hold_until:
        life, actions = stop(life, life.held_reason, now, life.grace_s)
    if life.examine_until is not None and now >= life.examine_until:
        life, more = examined(life, now, is_failing=is_failing)
        actions += more
    is_left = bool(life.running) or life.launcher_running
    if is_left and life.kill_at is not None and now >= life.kill_at and life.examine_until is None:
        actions.append(KillEverything())
    return life, actions


def _examine(life: Life, now: float) -> tuple[Life, list[Action]]:
    if life.is_examined or life.examine_until is not None or not life.running:
        return life, []
    return replace(life, examine_until=now + EXAMINE_S), [ExamineRanks()]


def _terminate(life: Life) -> tuple[Life, list[Action]]:
    actions: list[Action] = [Terminate(life.running)] if life.running else []
    after, more = _launcher_next(life)
    return after, actions + more


def _launcher_next(life: Life) -> tuple[Life, list[Action]]:
    if life.is_stopping and life.launcher_running and not life.running and not life.launcher_terminated:
        return replace(life, launcher_terminated=True), [Terminate(frozenset({None}))]
    return life, []


def next_deadline(life: Life) -> float | None:
    """Return the next time at which `tick` has an effect."""
    if life.examine_until is not None:
        return life.examine_until
    if life.is_held:
        return life.hold_until
    return life.kill_at if life.running or life.launcher_running else None
