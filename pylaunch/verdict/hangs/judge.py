"""Ranks that a hang involves, from the states of all ranks: rows of rules, in order. Pure.

Facts come first, each that applies: ranks that ended, are stopped or wait for a disk, nodes that do not answer, calls
that differ, facts of hosts. Of the rows about waits, the first that applies counts. A finding names ranks only if they
are a clear minority of all ranks and the evidence excludes that they are victims; else it shows both sides and names
nobody. It has high confidence if it is a fact, or if the ranks that it is about stand still and nothing shows that they
may wait for something outside of the run.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from pylaunch.base.dataclass import dataclass, replace
from pylaunch.model.diagnosis.confidence import Confidence
from pylaunch.model.diagnosis.hang import HangFinding, HangKind
from pylaunch.model.hostset import fold
from pylaunch.protocol.examination import STOPPED_STATES
from pylaunch.verdict.hangs.calls import (
    PendingCall,
    is_seen_waiting,
    shown_call_place,
    wait_graph,
)
from pylaunch.verdict.hangs.differing_calls import differing_calls
from pylaunch.verdict.hangs.host_findings import host_findings, with_host_lines, witnesses
from pylaunch.verdict.hangs.ranks import HangEvidence, WatchedRanks
from pylaunch.verdict.hangs.stacks import POINT_TO_POINT, calls_elsewhere

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW
STACKS = "pylaunch stacks {run}"
STACKS_OF = "pylaunch stacks {run} --rank {rank}"
CHECK = "pylaunch check --limit {hosts}"
ALL_CALLED = "which all ranks called: look at network and GPUs"


class _Waits:
    """Ranks that wait for each other, and words about them."""

    def __init__(self, world: WatchedRanks) -> None:
        self.world = world
        self.graph = wait_graph(world.groups, world.views)
        self.differing = [each for group in world.groups if (each := differing_calls(world, group)) is not None]
        roots = sorted(self.graph.roots - world.evidence.ended.keys())
        self.victims = [rank for rank in roots if self._is_in_whole_call(rank)]
        """Ranks for which others wait, and that wait in a call that all of its ranks called: they lack data."""

        self.late = [rank for rank in roots if rank not in self.victims]
        """Ranks for which others wait, and that do not call what these called."""

    def _is_in_whole_call(self, rank: int) -> bool:
        is_pending = any(rank in call.waiting and not call.late for call in self.graph.pending)
        return is_pending and is_seen_waiting(self.world.views.get(rank))

    @property
    def is_transport(self) -> bool:
        """True if all ranks called the pending collectives, and in the same way."""
        pending = self.graph.pending
        is_whole = all(len(call.waiting) == len(call.group.key.ranks) for call in pending)
        return bool(pending) and is_whole and not self.differing

    @property
    def silent(self) -> list[int]:
        """Ranks without an answer of the interpreter in whose groups all other ranks wait for one call."""
        evidence = self.world.evidence
        unanswered = {rank for call in self.graph.pending for rank in call.group.unanswered}
        live = {rank for rank in unanswered if evidence.hosts[rank] not in evidence.silent_hosts}
        return [] if self.graph.waits_for else sorted(live - evidence.ended.keys())

    @property
    def in_calls(self) -> list[int]:
        """Ranks whose stacks show that they wait for others, where no rank shows a pending collective."""
        return [] if self.graph.pending else self.world.which("call")

    @property
    def outside(self) -> list[int]:
        """Ranks that show a stack outside of the calls in which others wait."""
        found = [rank for rank in self.world.which("view") if self.world.views[rank].threads]
        return [rank for rank in found if not self.world.states[rank].call] if self.in_calls else []

    @property
    def is_joint(self) -> bool:
        """True if the calls that stacks show need all ranks, so that a rank outside of them is late."""
        states = [self.world.states[rank] for rank in self.in_calls]
        views = [*self.world.views.values()]
        is_joint = {state.call for state in states}.isdisjoint(POINT_TO_POINT)
        return is_joint and not any(calls_elsewhere(view) or view.is_other_rank for view in views)

    def shown(self, late: Collection[int] = ()) -> str:
        """Return "62 ranks wait in all_reduce #412 of dp", for the call with the most ranks that wait for `late`."""
        ranks = self.in_calls
        if ranks:
            names = " or ".join(sorted({self.world.states[rank].call for rank in ranks}))
            return f"{self.world.who(ranks)} {'waits' if len(ranks) == 1 else 'wait'} in {names}"
        calls = [call for call in self.graph.pending if call.late & {*late}] or self.graph.pending
        if not calls:
            return ""
        call = max(calls, key=lambda call: (len(call.waiting), -call.number))
        more = len(self.graph.pending) - 1
        others = f" ({more} more pending call{'s' if more > 1 else ''})" if more else ""
        return f"{self.world.who(call.waiting)} {_wait(call)} in {call.shown}{others}"


def _wait(call: PendingCall) -> str:
    return "waits" if len(call.waiting) == 1 else "wait"


@dataclass(frozen=True)
class _Row:
    """A rule: it applies to the ranks that `ranks` returns, if there are any."""

    kind: HangKind
    ranks: Callable[[_Waits], Collection[int]]
    text: str
    """With {waits}, {before} (the same before a semicolon, or nothing), {who}, {places}, {answer}, {ended}, {sides}."""

    confidence: Confidence | Callable[[_Waits, list[int]], Confidence]
    hint: str = STACKS
    """With {run}, {rank}, {host}, {hosts} and {pid}."""

    names: bool | None = None
    """Whether the finding names the ranks; None if it does unless its confidence is low, and they are a minority."""


def _of_minority(waits: _Waits, ranks: list[int]) -> Confidence:
    return MEDIUM if waits.world.may_name(ranks) else LOW


def _of_still_ranks(waits: _Waits, ranks: list[int]) -> Confidence:
    is_one_group = len({call.group.key for call in waits.graph.pending}) == 1
    if not waits.world.may_name(ranks):
        return LOW
    evidence = waits.world.evidence
    is_sure = is_one_group and evidence.is_settled and not evidence.silent_hosts and bool(_are_stuck(waits, ranks))
    return HIGH if is_sure else MEDIUM


def _ended(waits: _Waits, *, few: bool) -> list[int]:
    """Return the ranks that ended while others of their groups wait, if they are few; else the ranks that wait."""
    pending, all_ended = waits.graph.pending, waits.world.evidence.ended.keys()
    ended = {rank for call in pending for rank in call.group.key.ranks} & all_ended
    waiting = {rank for call in pending for rank in call.waiting} - all_ended
    are_few = 2 * len(ended) < len(waits.world.numbers)
    if not ended or not waiting or few is not are_few:
        return []
    return sorted(ended if few else waiting)


def _of_disk_wait(waits: _Waits, ranks: list[int]) -> Confidence:
    views = Counter(view.rank for sample in waits.world.evidence.samples for view in sample)
    return HIGH if all(views[rank] > 1 for rank in ranks) else MEDIUM


def _stopped(waits: _Waits) -> list[int]:
    views = waits.world.views
    return [rank for rank in waits.world.which("view") if views[rank].state in STOPPED_STATES]


FACTS = (
    _Row(HangKind.ENDED, lambda waits: _ended(waits, few=True), "{who} {places}; {waits}", HIGH, "", names=True),
    _Row(HangKind.EXTRA_CALL, lambda waits: _ended(waits, few=False),
         "{waits}, which the ranks that ended did not call: {ended}", MEDIUM,
         "look for `if rank == 0` around that call"),
    _Row(HangKind.STOPPED, _stopped, "{before}{who} {places}", HIGH, "on {host}: kill -CONT {pid}", names=True),
    _Row(HangKind.DISK_WAIT,
         lambda waits: [rank for rank in waits.world.which("in_disk_wait") if rank not in waits.graph.waiting],
         "{before}{who} {places}", _of_disk_wait,
         "on {host}: dmesg, and look at the storage behind that path", names=True),
)  # fmt: skip
"""Facts that need no other rank to be seen."""


def _are_stuck(waits: _Waits, ranks: list[int]) -> list[int]:
    return ranks if all(waits.world.states[rank].is_stuck for rank in ranks) else []


def _held(waits: _Waits) -> list[int]:
    """Return silent ranks of which a signal shows that their main thread is in no call."""
    states = [waits.world.states[rank] for rank in waits.silent]
    is_known = all(state.view is not None and state.view.source == "signal" and not state.call for state in states)
    return waits.silent if is_known else []


def _last_ones(waits: _Waits) -> list[int]:
    """Return the ranks that run on after half of all or more exited with code 0 and none ended otherwise."""
    ended, world = waits.world.evidence.ended, waits.world
    is_half = 2 * len(ended) >= len(world.numbers) and {*ended.values()} == {"exited with code 0"}
    return world.live() if is_half and not waits.in_calls and not waits.graph.pending else []


LATE = "{waits}; {who} {places}"
WAITS = (
    _Row(HangKind.LATE, lambda waits: waits.late, LATE, _of_still_ranks, STACKS_OF),
    _Row(HangKind.TRANSPORT, lambda waits: waits.victims, "{waits}; {who} {places}, " + ALL_CALLED, MEDIUM, CHECK,
         names=False),
    _Row(HangKind.INTERPRETER_HELD, _held,
         "{waits}; {who} {answer} while C code holds the interpreter lock: {places}", _of_still_ranks, STACKS_OF),
    _Row(HangKind.SILENT, lambda waits: waits.silent, "{waits}; {who} {answer}: {places}", LOW, STACKS_OF),
    _Row(HangKind.TRANSPORT, lambda waits: waits.world.numbers if waits.is_transport else (),
         "{waits}, " + ALL_CALLED, MEDIUM, CHECK),
    _Row(HangKind.LATE, lambda waits: waits.outside, LATE,
         lambda waits, ranks: _of_minority(waits, ranks) if waits.is_joint else LOW),
    _Row(HangKind.TRANSPORT, lambda waits: waits.in_calls, "{waits}, and none finishes", LOW),
    _Row(HangKind.BUSY, _last_ones, "{ended}; {sides}", LOW),
    _Row(HangKind.STUCK, lambda waits: _are_stuck(waits, waits.world.live()),
         "no rank computes or changes its place: {sides}", LOW),
    _Row(HangKind.UNDECIDED, lambda waits: waits.world.numbers, "no output and no progress: {sides}", LOW),
)  # fmt: skip
"""The first row that applies counts."""


def judge_hang(evidence: HangEvidence) -> tuple[HangFinding, ...]:
    """Return the findings, the best explanation first; never empty."""
    world = WatchedRanks(evidence)
    waits = _Waits(world)
    of_hosts = host_findings(
        evidence, waits.shown(), is_transport=waits.is_transport, late=world.hosts_of(waits.graph.roots)
    )
    found = [each for row in FACTS if (each := _finding(row, waits)) is not None]
    found += [*_silent_nodes(waits), *waits.differing]
    found += [replace(each, evidence=(*each.evidence, *world.lines())) for each in of_hosts]
    if waits.graph.waits_for and not waits.graph.roots:
        found.append(_group_order(waits))
    else:
        found.append(next(each for row in WAITS if (each := _finding(row, waits)) is not None))
    found.sort(key=lambda each: each.confidence is not HIGH)
    if len(found) > 1:
        found = [each for each in found if each.kind is not HangKind.UNDECIDED]
    best = _with_exceptions(_with_standstill(found[0], world), world)
    return (with_host_lines(best, evidence), *found[1:])


def _finding(row: _Row, waits: _Waits) -> HangFinding | None:
    world, ranks = waits.world, sorted(row.ranks(waits))
    if not ranks:
        return None
    evidence, shown = world.evidence, waits.shown(ranks)
    ended = sorted(evidence.ended)
    text = row.text.format(
        waits=shown, before=f"{shown}; " if shown else "", who=world.who(ranks), places=world.places(ranks),
        ended=f"{world.who(ended)} {world.places(ended)}" if ended else "", sides=world.sides(),
        answer=_answer(world, ranks),
    )  # fmt: skip
    first, view = ranks[0], world.views.get(ranks[0])
    hint = row.hint.format(
        run=evidence.run, rank=first, host=evidence.hosts[first], hosts=fold(world.hosts_of(ranks)),
        pid=0 if view is None else view.pid,
    )  # fmt: skip
    confidence = row.confidence if isinstance(row.confidence, Confidence) else row.confidence(waits, ranks)
    may_name = confidence is not LOW and world.may_name(ranks) if row.names is None else row.names
    named = tuple(ranks) if may_name else ()
    is_busy = row.kind is HangKind.LATE and not _are_stuck(waits, ranks)
    is_busy = is_busy or (row.kind is HangKind.INTERPRETER_HELD and any(world.states[rank].work for rank in ranks))
    if is_busy and confidence is HIGH:
        confidence = MEDIUM  # It has worked in these views, and may again: no reason to end a run.
    kind = HangKind.BUSY if is_busy else row.kind
    return HangFinding(kind, text, confidence, named, world.hosts_of(named), world.lines(), hint)


def _answer(world: WatchedRanks, ranks: list[int]) -> str:
    """Return "does not answer", or that ranks answered without a call of the group in which others wait."""
    is_one, views = len(ranks) == 1, [world.views.get(rank) for rank in ranks]
    if all(view is not None and view.source == "helper" for view in views):
        return f"{'shows' if is_one else 'show'} no call of that group"
    return "does not answer" if is_one else "do not answer"


def _silent_nodes(waits: _Waits) -> Iterator[HangFinding]:
    shown = waits.shown()
    for host, reason in sorted(waits.world.evidence.silent_hosts.items()):
        seen = witnesses(waits.world.evidence, host)
        yield HangFinding(
            HangKind.NODE_SILENT, f"{host} does not answer: {reason}{f'; {shown}' if shown else ''}",
            HIGH if seen else MEDIUM, (), (host,), (*waits.world.lines(), *seen),
        )  # fmt: skip


def _group_order(waits: _Waits) -> HangFinding:
    """Judge a cycle: the ranks of each call lack ranks that wait in another call."""
    world = waits.world
    calls = sorted(
        (call for call in waits.graph.pending if call.late), key=lambda call: (len(call.waiting), min(call.waiting))
    )
    fewest = sorted(calls[0].waiting)
    is_seen = all(is_seen_waiting(world.views.get(rank)) for call in calls for rank in call.waiting)
    is_minority = all(2 * len(fewest) < len(call.group.key.ranks) for call in calls)
    is_clear = len(calls) == 2 and is_seen and is_minority and world.may_name(fewest)
    places = [shown_call_place(call.group.calls[min(call.waiting)][call.number]) for call in calls]
    parts = [
        f"{world.who(call.waiting)} {_wait(call)} in {call.shown}{place}"
        for call, place in zip(calls, places, strict=True)
    ]
    named = tuple(fewest) if is_clear else ()
    return HangFinding(
        HangKind.GROUP_ORDER, f"{', '.join(parts)}: each side waits for the other",
        HIGH if is_clear else LOW, named, world.hosts_of(named), world.lines(),
        "every rank must call the collectives of all its groups in the same order",
    )  # fmt: skip


def _with_standstill(finding: HangFinding, world: WatchedRanks) -> HangFinding:
    """Return `finding` with the evidence that no rank works, unless it accuses a host for a reason of the host."""
    if not finding.is_hang or not world.still_s or (finding.hosts and not finding.ranks):
        return finding
    line = f"no rank used a processor or moved data for {world.still_s:.0f} s"
    is_sure = world.evidence.is_settled or finding.confidence is HIGH
    return replace(finding, confidence=HIGH if is_sure else MEDIUM, evidence=(*finding.evidence, line))


def _with_exceptions(finding: HangFinding, world: WatchedRanks) -> HangFinding:
    """Return `finding` with the exception of ranks that wait in a joint call while they handle it.

    A `finally` or a handler with a barrier keeps it from ending the rank: it is the cause where few ranks have one.
    """
    views = world.views
    found = {rank: views[rank].handles for rank in world.which("call") if views[rank].handles}
    if not finding.is_hang or not found or 2 * len(found) >= len(world.numbers):
        return finding
    first = min(found)
    text = f"{world.who([first])} had {found[first]} before, and waits while it handles it; {finding.text}"
    ranks = tuple(found) if world.may_name(found) else ()
    hint = "let the exception end the rank: no barrier in `finally` or `except`"
    return replace(finding, text=text, ranks=ranks, hosts=world.hosts_of(ranks), hint=hint)
