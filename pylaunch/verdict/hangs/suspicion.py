"""Suspicion of a hang, from cheap samples of all ranks over time. Pure; times are seconds on one clock.

Output, steps and collectives of any rank are progress. After half of `after_s` without progress the ranks are viewed
once, and after all of it again: the finding of `judge` on both views is reported after the limit if it is certain, and
after UNSURE times the limit if it is not. Views have the last call of each group only; all calls are requested once in
a silence, when the second view shows no progress. So a healthy rank is asked only while it is silent.
"""

from collections.abc import Iterable, Mapping

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.protocol.examination import RankView
from pylaunch.protocol.progress import RankSigns
from pylaunch.verdict.hangs.calls import Counters, group_counters, is_brief, with_calls

UNSURE = 4.0
"""Multiple of the limit for findings without high confidence, and before the run has settled for those that a start
explains: imports, downloads, the first compilation."""

FIRST_STEPS = 3
FIRST_CALLS = 20
FIRST_SIGNS = 5
"""Steps, collectives of one group, or signs of progress after which a run has settled."""

MOST_REQUESTS = 4
"""Requests for all calls in one silence, which cost a rank more than brief ones. On a busy machine, ranks are late with
these only, so each next one has more time."""

MOST_SAMPLES = 8
"""Views that are judged. A rank that computed or changed its place only before them has no influence."""

LEAVING = frozenset({"Z", "X", ""})
"""States of a process that has ended, or whose main thread has."""


@dataclass(frozen=True)
class HangReport:
    """A finding that has lasted long enough to be shown."""

    finding: HangFinding
    quiet_s: float
    """Seconds without progress."""

    is_exact: bool = True
    """False for a lower bound of `quiet_s`: collectives advance unseen before the first view."""


@dataclass(frozen=True)
class ProgressResumed:
    """Ranks advance again after a report."""

    quiet_s: float
    is_exact: bool = True


@dataclass(frozen=True)
class Suspicion:
    """Signs of progress so far, and the views since the last one."""

    after_s: float
    quiet_since: float
    """Time of the last progress, as far as it was seen."""

    sign_at: float = float("-inf")
    """Time of the last sign of progress outside of views: output, a step or an end."""

    is_exact: bool = False
    """`quiet_since` is known from the ranks: nothing advanced unseen after it."""

    written: Mapping[int, int] = field(default_factory=dict)
    """Bytes of output by rank."""

    steps: Mapping[int, int] = field(default_factory=dict)
    counters: Mapping[int, Counters] = field(default_factory=dict)
    """Collectives of each rank, from its last view."""

    over: frozenset[int] = frozenset()
    """Ranks that have ended, or were seen while they ended."""

    signs: int = 0
    """Times at which there was progress."""

    samples: tuple[tuple[RankView, ...], ...] = ()
    sampled_at: tuple[float, ...] = ()
    """Time of each of `samples`."""

    calls_requests: int = 0
    """Requests for all calls of the ranks in this gap."""

    looked_at: float | None = None
    """Time of the last views in this gap."""

    reported: tuple[object, ...] = ()
    """Kind and ranks of the finding that was shown last; () for none in this gap."""

    @property
    def is_settled(self) -> bool:
        """Return True after the first steps, which take longer than later ones."""
        furthest = max((last for counters in self.counters.values() for last, _ in counters.values()), default=0)
        is_training = furthest >= FIRST_CALLS or max(self.steps.values(), default=0) >= FIRST_STEPS
        return self.signs >= FIRST_SIGNS or is_training

    def with_activity(self, now: float, activity: Iterable[RankSigns]) -> "Suspicion":
        """Add cheap samples: more output or another step of any rank is progress."""
        written, steps = dict(self.written), dict(self.steps)
        for each in activity:
            written[each.rank] = each.written
            if each.step is not None:
                steps[each.rank] = each.step
        is_progress = written != self.written or steps != self.steps
        after = replace(self, written=written, steps=steps)
        return replace(after.with_progress(now), sign_at=now) if is_progress else after

    def is_due(self, now: float) -> bool:
        """Return True when the ranks should be viewed: twice in `after_s`, and at its end."""
        since = self.quiet_since if self.looked_at is None else self.looked_at
        return now - since >= self.after_s / 2 or since < self.quiet_since + self.after_s <= now

    @property
    def still_since(self) -> float:
        """Time from which on no rank has advanced, also unseen: the first view, unless the ranks know it."""
        return self.quiet_since if self.is_exact or not self.sampled_at else self.sampled_at[0]

    def with_over(self, now: float, ranks: Iterable[int]) -> "Suspicion":
        """Add ranks that have ended, or are about to: an end is progress, and older views do not count any more.

        Without this, ranks that finish one after the other look like ranks that wait for one that is gone.
        """
        over = self.over | {*ranks}
        if over == self.over:
            return self
        return replace(self.with_progress(now), over=over, reported=self.reported, sign_at=now)

    @property
    def wants_calls(self) -> bool:
        """Return True when all calls of the ranks should be requested now: two views show no progress.

        They are requested again for ranks that did not answer in time.
        """
        if len(self.samples) < 2 or self.calls_requests >= MOST_REQUESTS:
            return False
        return not self.calls_requests or any(map(is_brief, self.samples[-1]))

    def with_views(self, now: float, views: tuple[RankView, ...]) -> "Suspicion":
        """Add the views of one moment: an advanced collective of any rank is progress, and so is its first one."""
        counters = group_counters(views)
        known = counters.keys() & self.counters.keys()
        had_none = {view.rank for sample in self.samples for view in sample if view.source == "helper"}
        had_none -= self.counters.keys()
        is_progress = any(counters[rank] != self.counters[rank] for rank in known)
        is_progress = is_progress or not had_none.isdisjoint(counters)
        after = replace(self, counters={**self.counters, **counters})
        if is_progress:
            after = after.with_progress(now)
        after = after.with_over(now, (view.rank for view in views if view.state in LEAVING))
        known_calls = (view for sample in after.samples for view in sample)  # A rank may be late with one answer.
        samples = (*after.samples, with_calls(views, known_calls))[-MOST_SAMPLES:]
        sampled_at = (*after.sampled_at, now)[-MOST_SAMPLES:]
        return replace(after, samples=samples, sampled_at=sampled_at, looked_at=now)

    def with_all_calls(self, now: float, views: tuple[RankView, ...]) -> "Suspicion":
        """Add views with all calls to the last sample, of the same moment.

        If a call is pending, the last call of any rank was the last progress. Views before it say nothing about the
        silence: a rank that sleeps in it may have imported a library then.
        """
        calls = [call for view in views for call in view.collectives]
        ages = [call.age_s for call in calls if call.age_s is not None]
        is_new = not self.is_exact and bool(ages) and not all(call.is_retired for call in calls)
        quiet_since = max(self.sign_at, now - min(ages)) if is_new else self.quiet_since
        samples = (*self.samples[:-1], with_calls(self.samples[-1], views))
        before = sum(at < quiet_since for at in self.sampled_at[:-1])
        return replace(
            self,
            samples=samples[before:],
            sampled_at=self.sampled_at[before:],
            calls_requests=self.calls_requests + 1,
            quiet_since=quiet_since,
            is_exact=is_new or self.is_exact,
        )

    def judged(self, now: float, finding: HangFinding) -> "tuple[Suspicion, HangReport | None]":
        """Return the report of `finding`, the best one on `samples`, if it is new and has lasted long enough."""
        is_early = not self.is_settled and finding.kind is HangKind.DISK_WAIT
        is_sure = finding.confidence is Confidence.HIGH and not is_early
        identity = (finding.kind, finding.ranks, finding.hosts)
        is_known = identity == self.reported or (not finding.is_hang and identity[1:] == self.reported[1:])
        is_soon = now - self.quiet_since < self.after_s * (1.0 if is_sure else UNSURE)
        if len(self.samples) < 2 or is_soon or is_known:
            return self, None
        return replace(self, reported=identity), HangReport(finding, now - self.still_since, self.is_exact)

    def resumed(self, before: "Suspicion") -> ProgressResumed | None:
        """Return the news that a reported gap is over; `before`: the value before the last change."""
        if before.reported and not self.reported:
            return ProgressResumed(self.quiet_since - before.still_since, before.is_exact)
        return None

    def with_progress(self, now: float) -> "Suspicion":
        """Begin a new gap: a rank advanced."""
        return replace(
            self,
            quiet_since=now,
            signs=self.signs + 1,
            samples=(),
            sampled_at=(),
            calls_requests=0,
            is_exact=False,
            looked_at=None,
            reported=(),
        )
