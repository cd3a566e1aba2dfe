"""Ranks that a hang involves, from the views of all ranks. Pure.

In this order: processes (ended, stopped, waiting for a disk), nodes that do not answer, differing calls, facts of hosts
(GPUs, links, paths), ranks that others wait for, then stacks alone. A finding names ranks only if they are a clear
minority of all ranks and the evidence excludes that they are victims; else it shows both sides and names nobody.
"""

from collections.abc import Collection, Iterable, Iterator

from pylaunch.base.dataclass import replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.hostset import fold
from pylaunch.protocol.examination import STOPPED_STATES
from pylaunch.verdict.causes.cause_kinds import KINDS
from pylaunch.verdict.causes.overrides import meetings, overridden
from pylaunch.verdict.hangs.brief_views import group_counters
from pylaunch.verdict.hangs.calls import shown_call_place
from pylaunch.verdict.hangs.differing_calls import differing_calls
from pylaunch.verdict.hangs.host_findings import host_findings, with_host_lines, witnesses
from pylaunch.verdict.hangs.snapshot import STATES, TIMED_SLEEPS, HangEvidence, Snapshot, shown_lock_wait, stopped_child
from pylaunch.verdict.hangs.stacks import (
    JOINS,
    POINT_TO_POINT,
    SlowPhase,
    calls_elsewhere,
    distributed_call,
    shown_place,
    slow_phase,
)
from pylaunch.verdict.hangs.waiting import PendingCall, WaitGraph, is_seen_waiting, wait_graph

_ORDER = {Confidence.HIGH: 0, Confidence.MEDIUM: 1, Confidence.LOW: 2}


def judge_hang(evidence: HangEvidence) -> tuple[HangFinding, ...]:
    """Return the findings, the best explanation first; never empty."""
    snapshot = Snapshot(evidence)
    if text := _advance(evidence):
        return (HangFinding(HangKind.ADVANCING, text, Confidence.HIGH),)
    graph = wait_graph(snapshot)
    waits = _who_waits(snapshot, graph) if graph.pending else ""
    late_hosts = snapshot.hosts_of(graph.roots)
    of_hosts = host_findings(evidence, waits, is_transport=_is_transport(snapshot, graph), late=late_hosts)
    hosts = [replace(each, evidence=(*each.evidence, *snapshot.lines())) for each in of_hosts]
    found = [*_processes(snapshot, graph), *_overridden(snapshot), *_differences(snapshot)]
    found = [*filter(_is_high, found), *filter(_is_high, hosts), *(each for each in found if not _is_high(each))]
    late = [] if any(map(_is_high, found)) else [*_late(snapshot, graph)]
    likely = [each for each in hosts if not _is_high(each)]
    found += [*late, *likely] if any(map(_is_high, late)) else [*likely, *late]
    found = found or [*_stacks_alone(snapshot)] or [_undecided(snapshot)]
    best = _with_exceptions(_with_standstill(found[0], snapshot), snapshot)
    return (with_host_lines(best, evidence), *found[1:])


def _with_standstill(finding: HangFinding, snapshot: Snapshot) -> HangFinding:
    """Return `finding` with the evidence that no rank works, unless it accuses a host for a reason of the host."""
    if not finding.is_hang or not snapshot.still_s or (finding.hosts and not finding.ranks):
        return finding
    line = f"no rank used a processor or moved data for {snapshot.still_s:.0f} s"
    return replace(finding, stands_still=True, evidence=(*finding.evidence, line))


def _with_exceptions(finding: HangFinding, snapshot: Snapshot) -> HangFinding:
    """Return `finding` with the exception of ranks that wait in a joint call while they handle it.

    A `finally` or a handler with a barrier keeps it from ending the rank: it is the cause where few ranks have one.
    """
    found = {rank: view.handles for rank, view in sorted(snapshot.views.items()) if view.handles}
    found = {rank: text for rank, text in found.items() if distributed_call(snapshot.views[rank])}
    if not finding.is_hang or not found or 2 * len(found) >= len(snapshot.world):
        return finding
    first = min(found)
    text = f"{snapshot.who([first])} had {found[first]} before, and waits while it handles it; {finding.text}"
    ranks = tuple(found) if snapshot.may_name(found) else ()
    hint = "let the exception end the rank: no barrier in `finally` or `except`"
    return replace(finding, text=text, ranks=ranks, hosts=snapshot.hosts_of(ranks), hint=hint)


def _is_high(finding: HangFinding) -> bool:
    return finding.confidence is Confidence.HIGH


def _advance(evidence: HangEvidence) -> str:
    """Return the progress between the first and the last sample in words; "" for none."""
    if len(evidence.samples) < 2:
        return ""
    first, last = Snapshot(replace(evidence, samples=evidence.samples[:1])), Snapshot(evidence)
    was, now = group_counters(first.views.values()), group_counters(last.views.values())
    for group in last.groups:
        for rank in sorted(group.calls.keys() & was.keys() & now.keys()):
            earlier, counter = was[rank].get(group.key.name), now[rank].get(group.key.name)
            if earlier is not None and counter is not None and counter.differs(earlier):
                return f"rank {rank} advanced to #{counter.last} of {group.label}"
    for rank, view in last.views.items():
        step = first.views[rank].step if rank in first.views else None
        if view.step is not None and view.step != step:
            return f"rank {rank} marked step {view.step}"
    return ""


# Processes and nodes


def _processes(snapshot: Snapshot, graph: WaitGraph) -> Iterator[HangFinding]:
    yield from _ended(snapshot, graph)
    yield from _stopped(snapshot, graph)
    yield from _disk_wait(snapshot, graph)
    for host, reason in sorted(snapshot.evidence.silent_hosts.items()):
        waiting = f"; {_who_waits(snapshot, graph)}" if graph.pending else ""
        seen = witnesses(snapshot.evidence, host)
        yield HangFinding(
            HangKind.NODE_SILENT, f"{host} does not answer: {reason}{waiting}",
            Confidence.HIGH if seen else Confidence.MEDIUM, (), (host,), (*snapshot.lines(), *seen),
        )  # fmt: skip


def _ended(snapshot: Snapshot, graph: WaitGraph) -> Iterator[HangFinding]:
    ended = sorted(snapshot.evidence.ended)
    waiting = graph.waiting | {rank for call in graph.pending for rank in call.waiting}
    if not ended or not waiting - {*ended}:
        return
    ends = snapshot.places(ended)
    waits = _who_waits(snapshot, graph)
    if snapshot.may_name(ended) or len(ended) * 2 < len(snapshot.world):
        yield HangFinding(
            HangKind.ENDED, f"{snapshot.who(ended)} {ends}; {waits}", Confidence.HIGH, tuple(ended),
            snapshot.hosts_of(ended), snapshot.lines(),
        )  # fmt: skip
        return
    extra = sorted(waiting - {*ended})
    named = tuple(extra) if snapshot.may_name(extra) else ()
    yield HangFinding(
        HangKind.EXTRA_CALL, f"{waits}, which the ranks that ended did not call: {snapshot.who(ended)} {ends}",
        Confidence.MEDIUM, named, snapshot.hosts_of(named), snapshot.lines(),
        hint="look for `if rank == 0` around that call",
    )  # fmt: skip


def _stopped(snapshot: Snapshot, graph: WaitGraph) -> Iterator[HangFinding]:
    ranks = sorted(rank for rank, view in snapshot.views.items() if view.state in STOPPED_STATES)
    ranks = [rank for rank in ranks if rank not in snapshot.evidence.ended]
    if not ranks:
        return
    view = snapshot.views[ranks[0]]
    hosts = snapshot.hosts_of(ranks)
    waits = f"{_who_waits(snapshot, graph)}; " if graph.pending else ""
    verb = "is" if len(ranks) == 1 else "are"
    yield HangFinding(
        HangKind.STOPPED, f"{waits}{snapshot.who(ranks)} {verb} {STATES[view.state]}", Confidence.HIGH, tuple(ranks),
        hosts, snapshot.lines(),
        hint=f"on {hosts[0]}: kill -CONT {view.pid}",
    )  # fmt: skip


def _disk_wait(snapshot: Snapshot, graph: WaitGraph) -> Iterator[HangFinding]:
    ranks = sorted(rank for rank, history in snapshot.history.items() if all(view.state == "D" for view in history))
    ranks = [rank for rank in ranks if rank not in graph.waiting and not snapshot.moves_data(rank)]
    if not ranks:
        return
    is_sure = all(len(snapshot.history[rank]) > 1 for rank in ranks)
    waits = f"{_who_waits(snapshot, graph)}; " if graph.pending else ""
    host = snapshot.hosts_of(ranks)[0]
    yield HangFinding(
        HangKind.DISK_WAIT, f"{waits}{snapshot.who(ranks)} {snapshot.places(ranks)}",
        Confidence.HIGH if is_sure else Confidence.MEDIUM, tuple(ranks), snapshot.hosts_of(ranks), snapshot.lines(),
        hint=f"on {host}: dmesg, and look at the storage behind that path",
    )  # fmt: skip


def _overridden(snapshot: Snapshot) -> Iterator[HangFinding]:
    found = overridden(meetings(snapshot.views.values()), len(snapshot.world))
    if found is not None:
        yield HangFinding(
            HangKind.OVERRIDDEN, found.text, Confidence.HIGH if found.is_sure else Confidence.LOW, found.named,
            snapshot.hosts_of(found.named), (*found.lines[1:], *snapshot.lines()),
            hint=KINDS["overridden"].hint,
        )  # fmt: skip


# Collectives


def _differences(snapshot: Snapshot) -> Iterator[HangFinding]:
    found = [finding for group in snapshot.groups if (finding := differing_calls(snapshot, group)) is not None]
    yield from sorted(found, key=lambda finding: _ORDER[finding.confidence])


def _is_transport(snapshot: Snapshot, graph: WaitGraph) -> bool:
    """Return True if all ranks called the pending collectives, and in the same way."""
    is_whole = all(len(call.waiting) == len(call.group.key.ranks) for call in graph.pending)
    return bool(graph.pending) and is_whole and not _differs(snapshot)


def _differs(snapshot: Snapshot) -> bool:
    return next(_differences(snapshot), None) is not None


def _late(snapshot: Snapshot, graph: WaitGraph) -> Iterator[HangFinding]:
    if not graph.pending:
        return
    roots = sorted(graph.roots - snapshot.evidence.ended.keys())
    silent = _not_answering(snapshot, graph)
    outside = [rank for rank in roots if not _is_in_whole_call(snapshot, graph, rank)]
    if outside:
        yield _of_roots(snapshot, graph, outside)
    elif roots:
        yield _unfinished(snapshot, graph, roots)
    elif graph.waits_for:
        yield _group_order(snapshot, graph)
    elif silent:
        yield _held(snapshot, graph, silent)
    elif _is_transport(snapshot, graph):
        yield _transport(snapshot, graph)


def _of_roots(snapshot: Snapshot, graph: WaitGraph, roots: list[int]) -> HangFinding:
    several = len({call.group.key for call in graph.pending}) > 1
    named = tuple(roots) if snapshot.may_name(roots) else ()
    text = f"{_who_waits(snapshot, graph, roots)}; {snapshot.who(roots)} {snapshot.places(roots)}"
    phases = {slow_phase(snapshot.views[rank]) for rank in roots} - {None, SlowPhase.BUILD_LOCK}
    is_constant = all(snapshot.is_constant(rank) for rank in roots)
    is_still = all(snapshot.lately(rank) for rank in roots)
    at_locks = snapshot.children_at_locks(roots[0]) if is_still and len(roots) == 1 else []
    in_healthy_phase = bool(phases) and (SlowPhase.DEBUGGER in phases or not is_still)
    child = stopped_child(snapshot.views[roots[0]]) if len(roots) == 1 and is_still and not in_healthy_phase else None
    kind, confidence = HangKind.LATE, Confidence.HIGH
    if SlowPhase.INPUT in phases:
        pass  # A person answers.
    elif at_locks and not in_healthy_phase:
        text, confidence = f"{text}, and {shown_lock_wait(at_locks)}", Confidence.MEDIUM
    elif child:
        confidence = Confidence.MEDIUM
    elif phases:
        kind, confidence = HangKind.BUSY, Confidence.MEDIUM
        if is_still:
            text = f"{text}, and neither computes nor moves data"
    elif not is_constant and len(snapshot.evidence.samples) > 1:
        kind, confidence = HangKind.BUSY, Confidence.MEDIUM
        work = "" if is_still or snapshot.moves_data(roots[0]) else snapshot.work(roots[0])
        text = f"{text}, and {work}" if work and len(roots) == 1 else text
    elif not all(snapshot.is_fixed(rank) for rank in roots) or several:
        confidence = Confidence.MEDIUM
    if not named:
        confidence = Confidence.LOW
    stacks = f"pylaunch stacks {snapshot.evidence.run} --rank {roots[0]}"
    hint = f"on {snapshot.hosts_of(roots)[0]}: kill -CONT {child.pid}" if child else stacks
    return HangFinding(
        kind, text, confidence, named, snapshot.hosts_of(named), snapshot.lines(), hint=hint,
        delays_all=not in_healthy_phase and _all_others_wait(snapshot, graph.waiting, roots),
    )  # fmt: skip


def _all_others_wait(snapshot: Snapshot, waiting: Collection[int], late: Collection[int]) -> bool:
    """Return True if all ranks but a minority `late`, or one of two, wait, as far as they answered and still run."""
    others = {rank for rank, view in snapshot.views.items() if view.threads or view.groups} - {*late}
    others -= snapshot.evidence.ended.keys()
    return bool(others) and others <= {*waiting} and 2 * len(late) <= len(snapshot.world)


def _is_in_whole_call(snapshot: Snapshot, graph: WaitGraph, rank: int) -> bool:
    """Return True if `rank` waits in a collective that all ranks of its group called: it lacks data, not a call."""
    is_pending = any(rank in call.waiting and not call.late for call in graph.pending)
    return is_pending and is_seen_waiting(snapshot, rank)


def _unfinished(snapshot: Snapshot, graph: WaitGraph, ranks: list[int]) -> HangFinding:
    """Judge ranks that wait in a collective that others finished: they are victims of the path to them, or of a GPU."""
    call = next(call for call in graph.pending if ranks[0] in call.waiting and not call.late)
    return HangFinding(
        HangKind.TRANSPORT,
        f"{_who_waits(snapshot, graph, ranks)}; {snapshot.who(call.waiting)} {_wait(call)} in {call.shown}, which all "
        "ranks called: look at network and GPUs",
        Confidence.MEDIUM, (), (), snapshot.lines(),
        hint=f"pylaunch check --limit {fold(snapshot.hosts_of(snapshot.world))}",
    )  # fmt: skip


def _group_order(snapshot: Snapshot, graph: WaitGraph) -> HangFinding:
    """Judge a cycle: the ranks of each call lack ranks that wait in another call."""
    calls = sorted(
        (call for call in graph.pending if call.late), key=lambda call: (len(call.waiting), min(call.waiting))
    )
    fewest = sorted(calls[0].waiting)
    is_seen = all(is_seen_waiting(snapshot, rank) for call in calls for rank in call.waiting)
    is_minority = all(2 * len(fewest) < len(call.group.key.ranks) for call in calls)
    is_clear = len(calls) == 2 and is_seen and is_minority and snapshot.may_name(fewest)
    parts = [f"{snapshot.who(call.waiting)} {_wait(call)} in {call.shown}{_place(call)}" for call in calls]
    text = f"{', '.join(parts)}: each side waits for the other"
    named = tuple(fewest) if is_clear else ()
    return HangFinding(
        HangKind.GROUP_ORDER, text, Confidence.HIGH if is_clear else Confidence.LOW, named, snapshot.hosts_of(named),
        snapshot.lines(),
        hint="every rank must call the collectives of all its groups in the same order",
    )  # fmt: skip


def _place(call: PendingCall) -> str:
    return shown_call_place(call.group.calls[min(call.waiting)][call.number])


def _transport(snapshot: Snapshot, graph: WaitGraph) -> HangFinding:
    call = graph.pending[0]
    return HangFinding(
        HangKind.TRANSPORT,
        f"all {len(call.waiting)} ranks called {call.shown} and none finished it: look at network and GPUs",
        Confidence.MEDIUM, (), (), snapshot.lines(),
        hint=f"pylaunch check --limit {fold(snapshot.hosts_of(call.waiting))}",
    )  # fmt: skip


def _not_answering(snapshot: Snapshot, graph: WaitGraph) -> list[int]:
    """Return ranks without an answer of the interpreter in whose groups all other ranks wait for one call."""
    unanswered = {rank for call in graph.pending for rank in call.group.unanswered}
    live = {rank for rank in unanswered if snapshot.evidence.hosts[rank] not in snapshot.evidence.silent_hosts}
    return sorted(live - snapshot.evidence.ended.keys())


def _held(snapshot: Snapshot, graph: WaitGraph, silent: list[int]) -> HangFinding:
    by_signal = [rank for rank in silent if rank in snapshot.views and snapshot.views[rank].source == "signal"]
    is_outside = by_signal == silent and all(not distributed_call(snapshot.views[rank]) for rank in silent)
    named = tuple(silent) if is_outside and snapshot.may_name(silent) else ()
    place = shown_place(snapshot.views[silent[0]]) if by_signal else ""
    why = "does not answer" if len(silent) == 1 else "do not answer"
    if place:
        why = f"{why} while C code holds {'its' if len(silent) == 1 else 'their'} interpreter lock, in {place}"
    elif all(rank in snapshot.views and snapshot.views[rank].source == "helper" for rank in silent):
        why = snapshot.places(silent)  # They answered, and their call belongs to no group that the others know.
    waits = _who_waits(snapshot, graph)
    if any(map(snapshot.work, silent)):
        return HangFinding(
            HangKind.BUSY, f"{waits}; {snapshot.who(silent)} {why}", Confidence.MEDIUM if named else Confidence.LOW,
            named, snapshot.hosts_of(named), snapshot.lines(),
            hint=f"pylaunch stacks {snapshot.evidence.run} --rank {silent[0]}",
            delays_all=_all_others_wait(snapshot, {rank for call in graph.pending for rank in call.waiting}, silent),
        )  # fmt: skip
    return HangFinding(
        HangKind.INTERPRETER_HELD if named else HangKind.LATE,
        f"{waits}; {snapshot.who(silent)} {why}",
        Confidence.HIGH if named else Confidence.LOW, named, snapshot.hosts_of(named), snapshot.lines(),
        hint=f"pylaunch stacks {snapshot.evidence.run} --rank {silent[0]}",
    )  # fmt: skip


# Stacks alone

APART = "are at different places"


def _stacks_alone(snapshot: Snapshot) -> Iterator[HangFinding]:
    """Judge ranks without a pending collective: point-to-point calls, older versions of torch, other programs."""
    calls = {rank: distributed_call(view) for rank, view in snapshot.views.items()}
    waiting = sorted(rank for rank, called in calls.items() if called)
    outside = sorted(rank for rank in snapshot.views if not calls[rank] and snapshot.views[rank].threads)
    if not waiting:
        yield from _stuck(snapshot)
        return
    names = " or ".join(sorted({calls[rank] for rank in waiting}))
    waits = f"{snapshot.who(waiting)} {'waits' if len(waiting) == 1 else 'wait'} in {names}"
    if not outside:
        if {calls[rank] for rank in waiting} <= POINT_TO_POINT:
            kind, why = HangKind.POINT_TO_POINT, "; no rank sends what another one waits for"
        else:
            kind, why = HangKind.TRANSPORT, " and none finishes"
        yield HangFinding(
            kind, f"{waits}{why}", Confidence.LOW, (), (), snapshot.lines(),
            hint=f"pylaunch stacks {snapshot.evidence.run}",
        )  # fmt: skip
        return
    is_joint = {calls[rank] for rank in waiting}.isdisjoint(POINT_TO_POINT)
    is_late = is_joint and not any(calls_elsewhere(snapshot.views[rank]) for rank in outside)
    is_late = is_late and not any(view.is_other_rank for view in snapshot.views.values())
    named = tuple(outside) if is_late and snapshot.may_name(outside) else ()
    in_phase = any(slow_phase(snapshot.views[rank]) for rank in outside)
    is_constant = all(map(snapshot.is_constant, outside))
    works = in_phase or not is_constant
    is_joined = any(calls[rank] not in JOINS for rank in waiting)
    delays_all = is_late and is_joined and not in_phase and _all_others_wait(snapshot, waiting, outside)
    yield HangFinding(
        HangKind.BUSY if works else HangKind.LATE, f"{waits}; {snapshot.who(outside)} {snapshot.places(outside)}",
        Confidence.MEDIUM if named else Confidence.LOW, named, snapshot.hosts_of(named), snapshot.lines(),
        hint=f"pylaunch stacks {snapshot.evidence.run}", delays_all=delays_all,
    )  # fmt: skip


def _stuck(snapshot: Snapshot) -> Iterator[HangFinding]:
    """Judge ranks that call no collective: no evidence shows which rank waits for another one."""
    hint = f"pylaunch stacks {snapshot.evidence.run}"
    others = _ended_well(snapshot)
    lead = others or "no output and no step"
    in_phase = any(map(slow_phase, snapshot.views.values()))
    is_last = bool(others) and not in_phase
    people = sorted(rank for rank, view in snapshot.views.items() if slow_phase(view) is SlowPhase.INPUT)
    working = sorted(rank for rank in snapshot.views if snapshot.work(rank))
    if people:
        named = tuple(people)
        yield HangFinding(
            HangKind.STUCK, f"{snapshot.who(named)} {snapshot.places(named, APART)}", Confidence.MEDIUM, named,
            snapshot.hosts_of(named), snapshot.lines(), hint="answer it, or remove the call",
        )  # fmt: skip
    elif working:
        yield HangFinding(
            HangKind.BUSY, f"{lead}; {snapshot.who(working)} {snapshot.places(working, APART)}", Confidence.LOW, (), (),
            snapshot.lines(), hint=hint, delays_all=is_last,
        )  # fmt: skip
    elif at_locks := sorted(rank for rank, view in snapshot.views.items() if slow_phase(view) is SlowPhase.BUILD_LOCK):
        yield HangFinding(
            HangKind.STUCK, f"{snapshot.who(at_locks)} {snapshot.places(at_locks)}", Confidence.MEDIUM, tuple(at_locks),
            snapshot.hosts_of(at_locks), snapshot.lines(),
            hint="if no process builds it: remove the file `lock` from the directory of the build",
        )  # fmt: skip
    elif snapshot.views:
        sleeps = all({view.wchan, view.syscall} & TIMED_SLEEPS for view in snapshot.views.values())
        rests = sleeps or in_phase
        if not rests and not others and all(map(snapshot.is_constant, snapshot.views)):
            yield HangFinding(
                HangKind.STUCK, f"no rank computes or changes its place: {_sides(snapshot)}", Confidence.LOW, (), (),
                snapshot.lines(), hint=hint,
            )  # fmt: skip
        elif rests or others:
            yield HangFinding(
                HangKind.BUSY, f"{lead}; {_sides(snapshot)}", Confidence.LOW, (), (), snapshot.lines(),
                hint=hint, delays_all=is_last,
            )  # fmt: skip


def _ended_well(snapshot: Snapshot) -> str:
    """Return "ranks 0,2 exited with code 0" where half of the ranks or more did and none ended otherwise; else ""."""
    ended = snapshot.evidence.ended
    is_half = 2 * len(ended) >= len(snapshot.world) and {*ended.values()} == {"exited with code 0"}
    return f"{snapshot.who(ended)} exited with code 0" if is_half else ""


def _sides(snapshot: Snapshot) -> str:
    by_place: dict[str, list[int]] = {}
    for rank in snapshot.views:
        by_place.setdefault(snapshot.place(rank), []).append(rank)
    sides = sorted(by_place.values(), key=lambda ranks: (len(ranks), ranks[0]))
    return "; ".join(f"{snapshot.who(ranks)} {snapshot.places(ranks)}" for ranks in sides[:3])


def _undecided(snapshot: Snapshot) -> HangFinding:
    answered = sum(bool(view.threads or view.groups) for view in snapshot.views.values())
    return HangFinding(
        HangKind.UNDECIDED, f"no output and no progress; {answered} of {len(snapshot.world)} ranks show a stack",
        Confidence.LOW, (), (), snapshot.lines(), hint=f"pylaunch stacks {snapshot.evidence.run}",
    )  # fmt: skip


def _who_waits(snapshot: Snapshot, graph: WaitGraph, late: Iterable[int] = ()) -> str:
    """Return "62 ranks wait in all_reduce #412 of dp", for the call with the most ranks that wait for `late`."""
    calls = [call for call in graph.pending if call.late & {*late}] or graph.pending
    call = max(calls, key=lambda call: (len(call.waiting), -call.number))
    more = len(graph.pending) - 1
    others = f" ({more} more pending call{'s' if more > 1 else ''})" if more else ""
    return f"{snapshot.who(call.waiting)} {_wait(call)} in {call.shown}{others}"


def _wait(call: PendingCall) -> str:
    return "waits" if len(call.waiting) == 1 else "wait"
