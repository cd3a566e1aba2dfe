"""Score the verdict of a drill. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

from lab.drill.catalogue import Drill, Effect, Subject
from pylaunch.base.dataclass import dataclass, field
from pylaunch.model.outcome import Named, Outcome, Status
from pylaunch.model.run import Event, EventKind

HANG = "hang: "
"""Beginning of the text of an event that reports a hang; "slow: " and "quiet: " accuse nobody."""


class Naming(Enum):
    """Subject that a verdict names."""

    RIGHT = "right"
    NOBODY = "nobody"
    """It names nobody though somebody is at fault."""

    WRONG = "wrong"


@dataclass(frozen=True)
class Observed:
    """Observations of one drill."""

    outcome: Outcome | None
    """None where pylaunch did not end the run on its own, and the drill stopped it."""

    guilty: Named
    """Rank with the fault, and its host."""

    events: tuple[Event, ...] = ()
    fault_at: float | None = None
    """Seconds since the epoch, as the others."""

    verdict_at: float | None = None
    """Moment at which the outcome was reported."""

    leftovers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Processes that remain, by host."""


@dataclass(frozen=True)
class DrillScore:
    """Score of one drill."""

    drill: Drill
    guilty: Named
    is_detected: bool
    """A healthy run: nothing was detected in it, as it should be."""

    has_right_cause: bool
    naming: Naming
    seconds: float | None
    """From the first death, or from the fault for a hang, to the verdict; None without one."""

    leftovers: tuple[str, ...]
    reason: str
    """First line of the verdict."""

    kind: str = ""
    """Kind of its first cause; "" without one."""

    @property
    def is_right(self) -> bool:
        """True for a verdict without any fault."""
        return self.is_acceptable and self.has_right_cause and self.naming is Naming.RIGHT

    @property
    def is_acceptable(self) -> bool:
        """True unless the fault was missed, somebody was accused wrongly, or something is left."""
        return self.is_detected and self.naming is not Naming.WRONG and not self.leftovers


def score(drill: Drill, observed: Observed) -> DrillScore:
    """Compare what was observed with what the drill deserves."""
    left = tuple(f"{host}: {each}" for host, lines in sorted(observed.leftovers.items()) for each in lines)
    if drill.effect is Effect.NONE:
        return _of_healthy(drill, observed, left)
    if drill.effect is Effect.HANGS:
        return _of_hang(drill, observed, left)
    outcome = observed.outcome
    if outcome is None or outcome.status is not Status.FAILED or outcome.hang is not None:
        reason = "not detected" if outcome is None else outcome.reason
        return DrillScore(drill, observed.guilty, False, False, _naming(drill, observed, ()), None, left, reason)
    first = outcome.causes[0] if outcome.causes else None
    is_kind = not drill.kinds or (first is not None and first.kind in drill.kinds)
    shown = () if outcome.first_failure is None else outcome.first_failure.last_lines
    shown_text = "\n".join((outcome.reason, *(() if first is None else (first.reason, *first.evidence)), *shown))
    named = () if outcome.named is None else (outcome.named,)
    died = min((end.time for end in outcome.ends if end.failed or drill.action == "leaves"), default=observed.fault_at)
    return DrillScore(
        drill, observed.guilty, True, is_kind and any(text in shown_text for text in drill.texts),
        _naming(drill, observed, named), _between(died, observed.verdict_at), left, outcome.reason,
        "" if first is None else first.kind,
    )  # fmt: skip


def _of_healthy(drill: Drill, observed: Observed, left: tuple[str, ...]) -> DrillScore:
    outcome, alarms = observed.outcome, [each.text for each in _alarms(observed.events)]
    is_done = outcome is not None and outcome.status is Status.DONE
    reason = alarms[0] if alarms else "not over in time" if outcome is None else outcome.reason
    is_right = is_done and not alarms
    naming = Naming.RIGHT if is_right else Naming.WRONG
    return DrillScore(drill, observed.guilty, is_right, is_right, naming, None, left, reason)


def _of_hang(drill: Drill, observed: Observed, left: tuple[str, ...]) -> DrillScore:
    first = next(_alarms(observed.events), None)
    if first is None:
        reason = "not detected" if observed.outcome is None else observed.outcome.reason
        return DrillScore(drill, observed.guilty, False, False, _naming(drill, observed, ()), None, left, reason)
    named = () if first.host is None else (Named(first.host, first.rank),)
    shown_text = "\n".join((first.text, *first.lines))
    return DrillScore(
        drill, observed.guilty, True, any(text in shown_text for text in drill.texts), _naming(drill, observed, named),
        _between(observed.fault_at, first.time), left, first.text,
    )  # fmt: skip


def _alarms(events: Iterable[Event]) -> Iterator[Event]:
    return (each for each in events if each.kind is EventKind.HANG and each.text.startswith(HANG))


def _naming(drill: Drill, observed: Observed, named: tuple[Named, ...]) -> Naming:
    if not named:
        return Naming.NOBODY
    guilty = observed.guilty
    wanted = guilty if drill.subject is Subject.RANK else Named(guilty.host, None)
    return Naming.RIGHT if named == (wanted,) else Naming.WRONG


def _between(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(0.0, end - begin)
