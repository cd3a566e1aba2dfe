"""State of each rank, from its views at two or more moments, and the words in which findings show it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, starmap

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.protocol.examination import STOPPED_STATES, RankView
from pylaunch.protocol.node_evidence import HostEvidence
from pylaunch.verdict.hangs.calls import GroupCalls, group_calls, shown_call_place
from pylaunch.verdict.hangs.stacks import (
    CHILD_WAITS,
    DEBUGGERS,
    PROCESS_STATES,
    distributed_call,
    function_of,
    has_left_script,
    is_in,
    main_stack,
    own_frame,
    shown_frame,
    shown_place,
    signature,
)

UNUSUAL_STATES = "TtDZ"
ENDED_OR_STOPPED = (*STOPPED_STATES, "Z", "X", "")
FEW = 4
"""Ranks that are listed by number; more are counted."""

STILL_LOOKS = 3
"""Last views of a rank without work, at least, in which it stands still, whatever it did before."""

STILL_SHARE = 0.8
"""Share of the time without progress after which ranks are viewed that these views cover, at least."""

LEAST_SPAN = 0.25
"""Share of the same time that views must cover to show that a rank stands still: on a busy machine an answer is late,
and two views are of nearly one moment."""

IDLE_SHARE = 0.05
"""Share of one core below which the processes of a rank do not compute: threads of libraries poll."""

IDLE_MAIN_SHARE = 0.005
"""The same for its main thread: a loop that polls ten times per second takes 0.001 to 0.002."""

LEAST_S = 0.02
"""Processor time that answers to the agent take."""

TRICKLE = 8192
"""Bytes per second up to which libraries and monitors of a rank that waits send heartbeats and read their sources."""

RETURNS, LEAST_RETURNS = 0.3, 2
"""Waits of the main thread per second, and at least, from which on its system calls return: a signal ends one, too."""

TIMED_SLEEPS = frozenset({"hrtimer_nanosleep", "clock_nanosleep", "nanosleep", "do_nanosleep"})
"""Kernel functions and system calls of a process that sleeps for a time that it chose."""


@dataclass(frozen=True)
class HangEvidence:
    """Reports of all nodes about ranks that do not advance."""

    run: str
    hosts: Mapping[int, str]
    """Host of every rank of the run, those that did not answer included."""

    samples: tuple[tuple[RankView, ...], ...]
    """Views of the ranks, oldest sample first."""

    ended: Mapping[int, str] = field(default_factory=dict)
    """Ranks that have ended, with the end: "exited with code 0"."""

    silent_hosts: Mapping[str, str] = field(default_factory=dict)
    """Hosts that do not answer, with the reason."""

    facts: tuple[HostEvidence, ...] = ()
    """Facts of the hosts, at the last sample."""

    addresses: Mapping[str, str] = field(default_factory=dict)
    """Host of each address in the inventory."""

    quiet_since: float = 0.0
    """Time of the last sign of progress on the controller's clock."""

    after_s: float = 0.0
    """Time without progress that raises the suspicion."""

    is_settled: bool = True
    """The first steps are over, before which healthy ranks stand still for longer."""


@dataclass(frozen=True)
class WatchedRank:
    """State of one rank."""

    place: str
    """In words: "is in load (data.py:88)"."""

    view: RankView | None = None
    """Last view, with the last answer of its interpreter where that one has none."""

    answered: bool = False
    """It showed a stack or its collectives."""

    call: str = ""
    """Function in which its main thread waits for other ranks: "all_reduce"."""

    in_disk_wait: bool = False
    """It waits for a disk in every view, and moves no data."""

    work: str = ""
    """Sign of work: "computes", "changes its place", "reads or writes data"; "" for none."""

    still_s: float = 0.0
    """Seconds since which it neither works nor changes its function; 0 if it does, or with too few stacks."""

    may_continue: bool = False
    """It stands still, and may wait for something outside of the run."""

    @property
    def is_stuck(self) -> bool:
        """True if it stands still, and nothing shows that it may wait for something outside of the run."""
        return self.still_s > 0 and not self.may_continue


class WatchedRanks:
    """The ranks of a run."""

    def __init__(self, evidence: HangEvidence) -> None:
        self.evidence = evidence
        self.numbers: Sequence[int] = sorted(evidence.hosts)
        self._history: dict[int, list[RankView]] = {}
        views: dict[int, RankView] = {}
        for view in (view for sample in evidence.samples for view in sample):
            self._history.setdefault(view.rank, []).append(view)
            views[view.rank] = with_answer(view, views.get(view.rank))
        self.states = {rank: self._state(rank, views.get(rank)) for rank in self.numbers}
        self.views = views
        self.groups: list[GroupCalls] = group_calls(views.values(), self.numbers)
        """Calls of every group, from the last views."""

    def _state(self, rank: int, view: RankView | None) -> WatchedRank:
        if view is None:
            return WatchedRank(self.evidence.ended.get(rank, "has not answered"))
        history = self._history[rank]
        call = distributed_call(view)
        moves = len(history) > 1 and _moves(*history[-2:])
        work = "reads or writes data" if moves else _sign_of_work(history)
        is_debugged = is_in(view, DEBUGGERS)
        looks = () if is_debugged else self._looks(history, work)
        place = self.evidence.ended.get(rank) or _place(view, "" if call or looks else work)
        return WatchedRank(
            place, view, bool(view.threads or view.groups), call,
            all(each.state == "D" for each in history) and not moves, work,
            looks[-1].time - looks[0].time if looks else 0.0, bool(looks) and _may_continue(looks),
        )  # fmt: skip

    def _looks(self, history: Sequence[RankView], work: str) -> Sequence[RankView]:
        """Return the views since which a rank stands still: all, or at least the last ones; () if it does not.

        Before these, it may have begun what it waits for now. Views without a stack show no change.
        """
        stacks = [view for view in history if main_stack(view) is not None]
        if not work and len(stacks) > 1 and stacks[-1].time - stacks[0].time > LEAST_SPAN * self.evidence.after_s:
            return history
        since = history[-1].time - STILL_SHARE * self.evidence.after_s
        looks = max(STILL_LOOKS, 1 + sum(view.time > since for view in history))
        last = history[-looks:]
        if len(history) < looks or sum(main_stack(view) is not None for view in last) < 2:
            return ()
        return () if _sign_of_work(last) or any(starmap(_moves, pairwise(last))) else last

    def live(self) -> list[int]:
        """Return the ranks that have not ended."""
        return [rank for rank in self.numbers if rank not in self.evidence.ended]

    def which(self, has: str) -> list[int]:
        """Return the ranks that have not ended for whose state the field `has` is true."""
        return [rank for rank in self.live() if getattr(self.states[rank], has)]

    def may_name(self, ranks: Iterable[int]) -> bool:
        """Return True if `ranks` are a clear minority. Two ranks, ties and few answers name nobody."""
        answered = sum(state.answered for state in self.states.values())
        has_majority = 2 * answered > len(self.numbers)
        return has_majority and len(self.numbers) > 2 and 0 < 2 * len({*ranks}) < len(self.numbers)

    @cached_property
    def still_s(self) -> float:
        """Seconds for which all ranks that run stand still and none may wait for something outside; else 0."""
        running = [self.states[rank] for rank in self.live()]
        return min((state.still_s if state.is_stuck else 0.0 for state in running), default=0.0)

    def hosts_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """Return the hosts of `ranks`."""
        return tuple(sorted({self.evidence.hosts[rank] for rank in ranks}))

    def who(self, ranks: Iterable[int]) -> str:
        """Return "rank 37 on n05", "ranks 0,2" or "62 ranks"."""
        listed = sorted(ranks)
        if len(listed) == 1:
            return f"rank {listed[0]} on {self.evidence.hosts[listed[0]]}"
        folded = fold_ranks(listed)
        return f"ranks {folded}" if folded.count(",") < FEW else f"{len(listed)} ranks"

    def places(self, ranks: Iterable[int]) -> str:
        """Return the common place of `ranks`; else the place of the first one."""
        places = [self.states[rank].place for rank in sorted(ranks)]
        if len(places) == 1:
            return places[0]
        plural = places[0].replace("is ", "are ", 1) if places[0].startswith("is ") else places[0]
        return plural if len({*places}) == 1 else f"do not call it; the first {places[0]}"

    def sides(self) -> str:
        """Return the places of all ranks that were viewed, the rarest first."""
        by_place: dict[str, list[int]] = {}
        for rank in self.which("view"):
            by_place.setdefault(self.states[rank].place, []).append(rank)
        sides = sorted(by_place.values(), key=lambda ranks: (len(ranks), ranks[0]))
        return "; ".join(f"{self.who(ranks)} {self.places(ranks)}" for ranks in sides[:3]) or "no rank was viewed"

    def lines(self) -> tuple[str, ...]:
        """Return evidence lines: each call and place once, with the folded ranks and hosts."""
        grouped: dict[str, list[int]] = {}
        for rank in self.numbers:
            if self.evidence.hosts[rank] not in self.evidence.silent_hosts:
                grouped.setdefault(self._line(rank), []).append(rank)
        listed = sorted(grouped.items(), key=lambda item: (-len(item[1]), item[1][0]))
        found = [f"{'rank' if len(ranks) == 1 else 'ranks'} {fold_ranks(ranks)} on {fold(self.hosts_of(ranks))}: {text}"
                 for text, ranks in listed]  # fmt: skip
        silent = [f"{host}: {reason}" for host, reason in sorted(self.evidence.silent_hosts.items())]
        return (*found, *silent)

    def _line(self, rank: int) -> str:
        parts = []
        for group in self.groups:
            if rank in group.calls and rank not in self.evidence.ended:
                pending, last = group.pending(rank), group.last(rank)
                if pending is not None:
                    place = shown_call_place(group.calls[rank][pending])
                    called = f", called{place}" if place else ""
                    parts.append(f"{group.shown_call(pending, rank)} is pending{called}")
                elif last:
                    parts.append(f"{group.shown_call(last, rank)} is over")
        return "; ".join([*parts, self.states[rank].place.removeprefix("is ")])


def with_answer(view: RankView, before: RankView | None) -> RankView:
    """Return `view`, which may lack the answer of the interpreter, with that in the view `before` of the rank.

    On a busy machine, a healthy interpreter may answer too late once. A signal shows its stacks without its calls.
    """
    if before is None or before.source != "helper" or before.pid != view.pid or view.state in ENDED_OR_STOPPED:
        return view
    if view.source == "" and not view.threads:
        return replace(view, threads=before.threads, groups=before.groups, collectives=before.collectives)
    if view.source == "signal" and not distributed_call(view):
        return replace(view, groups=before.groups, collectives=before.collectives)
    return view


# Work


def _sign_of_work(history: Sequence[RankView]) -> str:
    """Return the sign of work between the first and the last of `history`, apart from data; "" for none."""
    if len(history) > 1 and _computed(history):
        return "computes"
    functions = {function_of(view) for view in history} - {None}
    return "changes its place" if len(functions) > 1 else ""


def _computed(history: Sequence[RankView]) -> bool:
    """Return True if a rank, or its main thread alone, computed between its first and last view, or wanted to.

    On a busy machine a thread that is ready to run (state R) waits for a processor.
    """
    if all(view.state == "R" for view in history):
        return True
    first, last = history[0], history[-1]
    elapsed = last.time - first.time
    if last.cpu_s - first.cpu_s > IDLE_SHARE * elapsed + LEAST_S:
        return True
    if first.main_cpu_s is None or last.main_cpu_s is None or first.pid != last.pid:
        return False
    return last.main_cpu_s - first.main_cpu_s > IDLE_MAIN_SHARE * elapsed + LEAST_S


def _moves(before: RankView, last: RankView) -> bool:
    return _moved(before, last) or _returns(before, last)


def _moved(before: RankView, last: RankView) -> bool:
    """Return True if the processes of a rank read or wrote more than heartbeats. Closed connections do not count."""
    if before.moved is None or last.moved is None:
        return False
    return abs(last.moved - before.moved) > TRICKLE * (last.time - before.time)


def _returns(before: RankView, last: RankView) -> bool:
    """Return True if the main thread waits for data in the script, again and again: the system calls return.

    A sleep returns too, and so does a lock with a time limit: they say nothing.
    """
    place = last.syscall or last.wchan
    if not place or place in TIMED_SLEEPS or "futex" in place or distributed_call(last):
        return False
    if before.main_switches is None or last.main_switches is None or before.pid != last.pid:
        return False
    return last.main_switches - before.main_switches > LEAST_RETURNS + RETURNS * (last.time - before.time)


def _may_continue(looks: Sequence[RankView]) -> bool:
    """Return True if a rank that stands still polls, sleeps for a time that it chose or waits for its processes, or has
    another thread in the user's code: it may wait for a server."""
    view = looks[-1]
    polls = len({signature(each) for each in looks if main_stack(each) is not None}) > 1
    is_in_thread = any(own_frame(thread.frames) is not None for thread in view.threads if not thread.is_main)
    sleeps = any({each.wchan, each.syscall} & TIMED_SLEEPS for each in looks)
    return polls or is_in_thread or sleeps or has_left_script(view) or is_in(view, CHILD_WAITS)


# Words


def _place(view: RankView, work: str) -> str:
    shown = shown_place(view)
    ends = f", and {work}" if work else ""
    if view.state in UNUSUAL_STATES:
        return f"is {PROCESS_STATES[view.state]}" + (f" in {shown}" if shown else "")
    if has_left_script(view):
        return f"has left its script and waits for its other threads or processes{_shown_threads(view)}{ends}"
    if is_in(view, DEBUGGERS):
        return f"is at a breakpoint of a debugger: {shown}"
    if shown:
        return f"is in {shown}{ends}"
    return (f"shows no stack ({view.note})" if view.note else "shows no stack") + ends


def _shown_threads(view: RankView) -> str:
    """Return ": thread Thread-1 is in upload (train.py:10)" for a thread in the user's code; "" without one."""
    places = ((each.name, own_frame(each.frames)) for each in view.threads if not each.is_main)
    return next((f": thread {name} is in {shown_frame(frame)}" for name, frame in places if frame is not None), "")
