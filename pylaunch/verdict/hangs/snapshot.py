"""Views of all ranks at two or more moments, and the words in which findings show them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, starmap

from pylaunch.base.dataclass import dataclass, field, replace
from pylaunch.model.hostset import fold, fold_ranks
from pylaunch.protocol.examination import STOPPED_STATES, ChildProcess, RankView, has_other_numbers
from pylaunch.protocol.node_evidence import HostEvidence
from pylaunch.verdict.hangs.calls import GroupCalls, group_calls, shown_call_place
from pylaunch.verdict.hangs.stacks import (
    distributed_call,
    function_of,
    has_left_script,
    main_stack,
    own_frame,
    shown_frame,
    shown_place,
    signature,
    slow_phase,
)

LOADER_WORKER = "pt_data_worker"
"""Name that torch gives a worker of its DataLoader."""

ENDED_OR_STOPPED = (*STOPPED_STATES, "Z", "X", "")
FEW = 4
"""Ranks that are listed by number; more are counted."""

STILL_LOOKS = 3
"""Last views of a rank without work, at least, in which it stands still, whatever it did before."""

STILL_SHARE = 0.8
"""Share of the time without progress after which ranks are viewed that these views cover, at least."""

IDLE_SHARE = 0.05
"""Share of one core below which the processes of a rank do not compute: threads of libraries poll."""

TRICKLE = 8192
"""Bytes per second up to which libraries and monitors of a rank that waits send heartbeats and read their sources."""

RETURNS, LEAST_RETURNS = 0.3, 2
"""Waits of the main thread per second, and at least, from which on its system calls return: a signal ends one, too."""

TIMED_SLEEPS = frozenset({"hrtimer_nanosleep", "clock_nanosleep", "nanosleep", "do_nanosleep"})
"""Kernel functions and system calls of a process that sleeps for a time that it chose."""

IDLE_MAIN_SHARE = 0.005
"""The same for its main thread: a loop that polls ten times per second takes 0.001 to 0.002."""

LEAST_S = 0.02
"""Processor time that answers to the agent take."""

STATES = {
    "T": "stopped (state T: SIGSTOP)",
    "t": "stopped by a debugger (state t)",
    "D": "waiting for a disk, a network file system or a driver (state D)",
    "Z": "a zombie (state Z)",
}


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


class Snapshot:
    """Evidence with what follows from it directly."""

    def __init__(self, evidence: HangEvidence) -> None:
        self.evidence = evidence
        self.world: Sequence[int] = sorted(evidence.hosts)
        self.views: dict[int, RankView] = {}
        """Last view of each rank, with the last answer of its interpreter where that one has none."""

        for sample in evidence.samples:
            self.views |= {view.rank: with_answer(view, self.views.get(view.rank)) for view in sample}

    @cached_property
    def history(self) -> dict[int, list[RankView]]:
        """Views of each rank, oldest first."""
        found: dict[int, list[RankView]] = {}
        for sample in self.evidence.samples:
            for view in sample:
                found.setdefault(view.rank, []).append(view)
        return found

    @cached_property
    def groups(self) -> list[GroupCalls]:
        """Calls of every group, from the last views.

        A rank that is another one for torch is not the one that a group means by its number.
        """
        return group_calls((view for view in self.views.values() if not has_other_numbers(view.overrides)), self.world)

    @property
    def has_majority(self) -> bool:
        """More than half of the ranks answered with a stack or their collectives."""
        answered = sum(bool(view.threads or view.groups) for view in self.views.values())
        return 2 * answered > len(self.world)

    def may_name(self, ranks: Iterable[int]) -> bool:
        """Return True if `ranks` are a clear minority. Two ranks, ties and few answers name nobody."""
        return self.has_majority and len(self.world) > 2 and 0 < 2 * len({*ranks}) < len(self.world)

    def is_constant(self, rank: int) -> bool:
        """Return True if `rank` was in one function in two or more samples, and neither computed nor moved data.

        A loop that polls is at different lines of one function. Samples without a stack show no change.
        """
        history = self.history.get(rank, [])
        stacks = [view for view in history if main_stack(view) is not None]
        return len(stacks) > 1 and stacks[-1].time > stacks[0].time and not self.work(rank)

    def is_fixed(self, rank: int) -> bool:
        """Return True if `rank` is constant, and at one line."""
        stacks = [view for view in self.history.get(rank, []) if main_stack(view) is not None]
        return self.is_constant(rank) and len({signature(view) for view in stacks}) == 1

    def work(self, rank: int) -> str:
        """Return the sign of work of `rank` between its first and last sample, "computes"; "" for none."""
        history = self.history.get(rank, [])
        return "reads or writes data" if self.moves_data(rank) else _sign_of_work(history)

    def lately(self, rank: int) -> list[RankView]:
        """Return the views of `rank` since which it stands still; [] if it does not.

        These are all of its views, or at least the last ones: before, it may have begun what it waits for now.
        """
        history = self.history.get(rank, [])
        if self.is_constant(rank):
            return history
        since = history[-1].time - STILL_SHARE * self.evidence.after_s if history else 0.0
        looks = max(STILL_LOOKS, 1 + sum(view.time > since for view in history))
        last = history[-looks:]
        if len(history) < looks or sum(main_stack(view) is not None for view in last) < 2:
            return []
        return [] if _sign_of_work(last) or any(starmap(_moves, pairwise(last))) else last

    @cached_property
    def still_s(self) -> float:
        """Seconds for which all ranks that run stand still and nothing shows that they wait for something outside.

        0 if a rank did not answer, works, polls at several lines, sleeps for a time that it chose, or is in a phase
        that takes long in healthy runs; or if another of its threads is in the user's code: it may wait for a server.
        """
        running = [rank for rank in self.world if rank not in self.evidence.ended]
        looks = [self.lately(rank) for rank in running]
        if not running or not all(looks) or any(map(_may_wait_outside, looks)):
            return 0.0
        return min(views[-1].time - views[0].time for views in looks)

    def moves_data(self, rank: int) -> bool:
        """Return True if `rank` read or wrote data between its last two views."""
        history = self.history.get(rank, [])[-2:]
        return len(history) == 2 and _moves(*history)

    def children_at_locks(self, rank: int) -> list[ChildProcess]:
        """Return the children of `rank` that waited for a lock since it stands still, and did not compute."""
        history = self.lately(rank)
        by_pid: dict[int, list[ChildProcess]] = {}
        for child in (child for view in history for child in view.children):
            by_pid.setdefault(child.pid, []).append(child)
        return [
            seen[-1]
            for seen in by_pid.values()
            if 1 < len(seen) == len(history)
            and all(child.waits_for_lock for child in seen)
            and seen[-1].cpu_s - seen[0].cpu_s <= LEAST_S
        ]

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

    def place(self, rank: int) -> str:
        """Return the state of `rank` in words: "is in load (data.py:88)"."""
        view = self.views.get(rank)
        if rank in self.evidence.ended:
            return self.evidence.ended[rank]
        if view is None:
            return "has not answered"
        if view.state in STATES:
            return f"is {STATES[view.state]}" + (f" in {shown}" if (shown := shown_place(view)) else "")
        if phase := slow_phase(view):
            return f"is {phase.value}: {shown_place(view) or view.wchan}{_shown_stopped(view)}"
        if has_left_script(view):
            waits = f"has left its script and waits for its other threads or processes{_shown_threads(view)}"
            return waits + _shown_stopped(view)
        if shown := shown_place(view):
            moves = self.moves_data(rank) and not distributed_call(view)
            return f"is in {shown}" + (" and reads or writes data" if moves else "") + _shown_stopped(view)
        return f"shows no stack ({view.note})" if view.note else "shows no stack"

    def places(self, ranks: Iterable[int], else_where: str = "do not call it") -> str:
        """Return the common place of `ranks`; else `else_where`, and the place of the first one."""
        listed = sorted(ranks)
        first = self.place(listed[0])
        if len(listed) > 1:
            plural = first.replace("is ", "are ", 1) if first.startswith("is ") else first
            return plural if len({self.place(rank) for rank in listed}) == 1 else f"{else_where}; the first {first}"
        return first

    def lines(self) -> tuple[str, ...]:
        """Return evidence lines: each call and place once, with the folded ranks and hosts."""
        grouped: dict[str, list[int]] = {}
        for rank in self.world:
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
        return "; ".join([*parts, self.place(rank).removeprefix("is ")])


def _may_wait_outside(looks: Sequence[RankView]) -> bool:
    view = looks[-1]
    polls = len({signature(each) for each in looks if main_stack(each) is not None}) > 1
    others = (thread for thread in view.threads if not thread.is_main)
    is_in_thread = any(own_frame(thread.frames) is not None for thread in others)
    sleeps = bool({view.wchan, view.syscall} & TIMED_SLEEPS)
    return polls or is_in_thread or sleeps or has_left_script(view) or slow_phase(view) is not None


def stopped_child(view: RankView) -> ChildProcess | None:
    """Return the first stopped process that a rank started; None without one."""
    return next((child for child in view.children if child.is_stopped), None)


def _shown_stopped(view: RankView) -> str:
    child = stopped_child(view)
    return "" if child is None else f", and its child process {child.name}, pid {child.pid}, is {STATES[child.state]}"


def _shown_threads(view: RankView) -> str:
    """Return ": thread Thread-1 is in upload (train.py:10)" for a thread in the user's code; "" without one."""
    places = ((each.name, own_frame(each.frames)) for each in view.threads if not each.is_main)
    return next((f": thread {name} is in {shown_frame(frame)}" for name, frame in places if frame is not None), "")


def shown_lock_wait(children: Sequence[ChildProcess]) -> str:
    """Return "its DataLoader worker pid 4121 waits for a lock"."""
    kinds = {"DataLoader worker" if child.name.startswith(LOADER_WORKER) else "child process" for child in children}
    kind = kinds.pop() if len(kinds) == 1 else "child process"
    pids = ", ".join(str(child.pid) for child in children[:FEW])
    more = f" and {len(children) - FEW} more" if len(children) > FEW else ""
    if len(children) == 1:
        return f"its {kind} pid {pids} waits for a lock"
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"its {plural} pid {pids}{more} wait for a lock"


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


def _sign_of_work(history: Sequence[RankView]) -> str:
    """Return the sign of work between the first and the last of `history`, apart from data; "" for none."""
    if len(history) > 1 and _computed(history):
        return "computes"
    functions = {function_of(view) for view in history} - {None}
    return "changes its place" if len(functions) > 1 else ""


def _computed(history: Sequence[RankView]) -> bool:
    """Return True if a rank, or its main thread alone, computed between its first and last view."""
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
