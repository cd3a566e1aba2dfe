"""The life of one run on one node, as values: given what happened and the time, what is true now and what to do.

    prepared ─► running ─► stopping
                   └──────────┴────► over

A node stops itself when a rank or the launcher fails, and when it is told to. A rank that fails because of another one
is given HOLD_S first, in which the others show how they end: the cause often comes later than its consequences, and
whoever is stopped can no longer be told from a victim. Stopping is: TERM to the ranks, TERM to
the launcher when no rank is left, KILL to everything of the run at the deadline, again and again until it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

HOLD_S = 2.0
"""Longer than ranks that wait for the same collective differ in giving up, and than Python takes to end."""

KILL_S = 5.0
"""How long KILL is repeated before what is left is reported as left over."""


@dataclass(frozen=True)
class TerminateRanks:
    """SIGTERM to these ranks: to the rank processes, not to their children."""

    ranks: frozenset[int]


@dataclass(frozen=True)
class TerminateLauncher:
    """SIGTERM to the launcher, whose ranks are gone."""


@dataclass(frozen=True)
class KillEverything:
    """SIGKILL to every process of the run."""


@dataclass(frozen=True)
class Announce:
    """Say that the run is being stopped, why, and whether a person asked for it."""

    reason: str
    by_hand: bool = False


Action = Union[TerminateRanks, TerminateLauncher, KillEverything, Announce]


@dataclass(frozen=True)
class Life:
    """A run on this node."""

    expected: frozenset[int]
    has_launcher: bool
    phase: str = "prepared"
    running: frozenset[int] = frozenset()
    ended: frozenset[int] = frozenset()
    launcher_running: bool = False
    launcher_told: bool = False
    by_hand: bool = False
    """A person asked for the end."""

    kill_at: float | None = None
    hold_until: float | None = None
    """A rank has failed because of another one, and the others have until then to end by themselves."""

    held_reason: str = ""

    @property
    def is_held(self) -> bool:
        return self.phase == "running" and self.hold_until is not None

    @property
    def is_stopping(self) -> bool:
        return self.phase == "stopping"

    @property
    def is_over(self) -> bool:
        """Nothing of the run is left to wait for."""
        if self.phase not in ("running", "stopping") or self.running or self.launcher_running or self.is_held:
            return False
        return self.has_launcher or self.ended >= self.expected

    def gave_up(self, now: float) -> bool:
        """KILL has been tried for long enough."""
        return self.kill_at is not None and now > self.kill_at + KILL_S


def released(life: Life) -> Life:
    """Every process has been let go: a launcher alone, or all ranks."""
    running = frozenset() if life.has_launcher else life.expected
    return replace(life, phase="running", running=running, launcher_running=life.has_launcher)


def rank_started(life: Life, rank: int) -> tuple[Life, list[Action]]:
    """A launcher has started `rank`; one that comes while the node stops is told to go."""
    after = replace(life, running=life.running | {rank}, ended=life.ended - {rank})
    return after, [TerminateRanks(frozenset({rank}))] if life.is_stopping else []


def rank_ended(life: Life, rank: int, failure: str | None, now: float, grace_s: float) -> tuple[Life, list[Action]]:
    """`rank` is gone; `failure` says how when it was not a good end."""
    after = _without(life, rank)
    if failure is not None and not life.is_stopping:
        return stop(after, failure, now, grace_s)
    return _launcher_next(after)


def rank_lost_another(life: Life, rank: int, failure: str, now: float) -> tuple[Life, list[Action]]:
    """`rank` failed because of another rank, as `failure` says."""
    after = _without(life, rank)
    return _launcher_next(after) if life.is_stopping else (_held(after, failure, now), [])


def launcher_ended(life: Life, failure: str | None, now: float, grace_s: float) -> tuple[Life, list[Action]]:
    """The launcher is gone. Ranks it left behind are stopped. One that fails after its rank tells nothing new."""
    after = replace(life, launcher_running=False)
    if life.is_stopping or life.is_held or not (failure or after.running):
        return after, []
    return stop(after, failure or "the launcher ended before its ranks", now, grace_s)


def launcher_lost_another(life: Life, failure: str, now: float) -> tuple[Life, list[Action]]:
    """The launcher failed because of another node, as `failure` says."""
    after = replace(life, launcher_running=False)
    return (after if life.is_stopping else _held(after, failure, now)), []


def stop(life: Life, reason: str, now: float, grace_s: float, *, by_hand: bool = False) -> tuple[Life, list[Action]]:
    """End the run. A later stop can only shorten the time that is left; the first one by hand is announced."""
    deadline = now + grace_s
    if life.kill_at is not None:
        actions: list[Action] = [Announce(reason, by_hand=True)] if by_hand and not life.by_hand else []
        return replace(life, kill_at=min(life.kill_at, deadline), by_hand=life.by_hand or by_hand), actions
    after = replace(life, phase="stopping", kill_at=deadline, hold_until=None, by_hand=by_hand)
    actions = [Announce(reason, by_hand)]
    if after.running:
        actions.append(TerminateRanks(after.running))
    after, more = _launcher_next(after)
    return after, actions + more


def tick(life: Life, now: float) -> list[Action]:
    """What the time alone demands."""
    if life.kill_at is None or now < life.kill_at or not (life.running or life.launcher_running):
        return []
    return [KillEverything()]


def hold_over(life: Life, now: float, grace_s: float) -> tuple[Life, list[Action]]:
    """Stop when the others have had their time."""
    if not life.is_held or life.hold_until is None or now < life.hold_until:
        return life, []
    return stop(life, life.held_reason, now, grace_s)


def _without(life: Life, rank: int) -> Life:
    return replace(life, running=life.running - {rank}, ended=life.ended | {rank})


def _held(life: Life, failure: str, now: float) -> Life:
    return life if life.is_held else replace(life, hold_until=now + HOLD_S, held_reason=failure)


def _launcher_next(life: Life) -> tuple[Life, list[Action]]:
    if life.is_stopping and life.launcher_running and not life.running and not life.launcher_told:
        return replace(life, launcher_told=True), [TerminateLauncher()]
    return life, []


def next_deadline(life: Life) -> float | None:
    """When `tick` and `hold_over` must be asked next."""
    if life.is_held:
        return life.hold_until
    return life.kill_at if life.running or life.launcher_running else None
